"use strict";
// Elements and figures, for both pages.

const $ = (id) => document.getElementById(id);
const int = (n) => Math.round(Number(n) || 0).toLocaleString("en");
const percent = (part, whole) => whole > 0 ? `${Math.round(100 * part / whole)} %` : "0 %";
const plural = (n, one, many = `${one}s`) => `${int(n)} ${n === 1 ? one : many}`;
const list = (x) => Array.isArray(x) ? x : [];
const clip = (text, n) => { const t = String(text ?? ""); return t.length > n ? `${t.slice(0, n)}…` : t; };

/** `text` with what would be hidden, or would turn the line around, as an escape: names and descriptions are other people's words. The rule of `cli/output.rs`. */
const plain = (text) => text.replaceAll("\r\n", "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

/** An element; strings become text that is seen as it is, never markup. */
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
    else node.setAttribute(key, value === true ? "" : plain(String(value)));
  }
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  node.append(...shown.map((child) => child instanceof Node ? child : plain(String(child))));
}
const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
const tile = (name, value, more) => h("div", {}, h("dt", {}, name), h("dd", { class: "big num" }, value), h("dd", { class: "small" }, more));
