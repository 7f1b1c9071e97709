"use strict";
// Elements and figures, for both pages.

const $ = (id) => document.getElementById(id);
const int = (n) => Math.round(Number(n) || 0).toLocaleString("en");
const percent = (part, whole) => whole > 0 ? `${Math.round(100 * part / whole)} %` : "0 %";
const plural = (n, one, many = `${one}s`) => `${int(n)} ${n === 1 ? one : many}`;
const list = (x) => Array.isArray(x) ? x : [];
const clip = (text, n) => { const t = String(text ?? ""); return t.length > n ? `${t.slice(0, n)}…` : t; };

/** An element; strings become text, never markup. */
function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}
function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes, children);
  return node;
}
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}
const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
const tile = (name, value, more) => h("div", {}, h("dt", {}, name), h("dd", { class: "big num" }, value), h("dd", { class: "small" }, more));
