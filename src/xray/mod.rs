//! A page that shows a run: what was visible in each turn, why, and what it saved.
//!
//! The page is one HTML file without any reference to the network: style, script and data are in
//! it. It follows the system's light or dark colours and is worked with the keyboard as well.
//!
//! A live view uses the same page: [`live_page`] gives one that begins empty and takes events from a
//! stream of server-sent events.

use serde::Serialize;

use crate::trace::{DamagedLine, Event, Trace};

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const DOM: &str = include_str!("dom.js");
const JS: &str = include_str!("page.js");

/// What the page's script reads.
#[derive(Serialize)]
struct Data<'a> {
    events: &'a [Event],
    damaged: &'a [DamagedLine],
    /// Where a live page gets its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a str>,
    /// Whose run it is, where a page is one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<&'a Whose<'a>>,
}

/// What a page of one session among others says of it.
#[derive(Serialize)]
#[cfg_attr(not(feature = "gateway"), allow(dead_code, reason = "a gateway has several sessions"))]
pub(crate) struct Whose<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where the others are.
    pub home: &'a str,
    /// What has to be known to read the page.
    pub note: Option<&'a str>,
}

/// The page of one run.
///
/// A page made of an operator's trace shows hidden tools: see
/// [`TraceLevel::Operator`](crate::trace::TraceLevel::Operator).
///
/// # Example
/// ```
/// use toolrack::trace::TraceBuffer;
/// use toolrack::{Catalog, Engine, SessionOptions, xray};
///
/// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}, {"name": "b"}]"#)?).build()?;
/// let trace = TraceBuffer::new();
/// let mut run = engine.session(SessionOptions::default().limit(1))?;
/// run.trace_to(trace.clone());
/// run.turn("call b")?;
///
/// let page = xray::page(&trace.events());
/// assert!(page.starts_with("<!doctype html>") && page.contains("default/b"));
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn page(events: &[Event]) -> String {
    render(&Data { events, damaged: &[], stream: None, of: None })
}

/// The page of a trace that was read; its damaged lines are named.
///
/// # Example
/// ```
/// use toolrack::trace::Trace;
/// use toolrack::xray;
///
/// let page = xray::page_of(&Trace::parse("{\"seq\":0,\"tu"));
/// assert!(page.contains(r#""damaged":[{"line":1"#));
/// ```
pub fn page_of(trace: &Trace) -> String {
    render(&Data { events: &trace.events, damaged: &trace.damaged, stream: None, of: None })
}

/// A page that begins empty and shows what arrives at `stream`, a URL of the page's own origin.
///
/// The stream is `text/event-stream`; each message's data is one line of a trace. When it breaks, the
/// page says so and the browser connects again; a message's `id` should be the event's `seq`, so that
/// the server can go on there (`Last-Event-ID`). An `open` event begins a new run on the page; a
/// message of the type `end` says that no more will come.
///
/// # Example
/// ```
/// assert!(toolrack::xray::live_page("/events?session=7").contains(r#""stream":"/events?session=7""#));
/// ```
pub fn live_page(stream: &str) -> String {
    render(&Data { events: &[], damaged: &[], stream: Some(stream), of: None })
}

/// [`live_page`] of one session among others.
#[cfg(feature = "gateway")]
pub(crate) fn session_page(stream: &str, of: &Whose<'_>) -> String {
    render(&Data { events: &[], damaged: &[], stream: Some(stream), of: Some(of) })
}

fn render(data: &Data<'_>) -> String {
    fill("", data, JS)
}

/// The page with `style` beside its own, `data`, and a script that finds what `dom.js` has.
pub(crate) fn fill(style: &str, data: &impl Serialize, script: &str) -> String {
    // Plain data with string keys always has a JSON form.
    let json = serde_json::to_string(data).unwrap_or_default();
    // Neither the end of the script element nor a comment can stand in it.
    let json = json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028");
    let (before, rest) = HTML.split_once("/*css*/").unwrap_or((HTML, ""));
    let (between, rest) = rest.split_once("/*data*/").unwrap_or((rest, ""));
    let (behind, after) = rest.split_once("/*js*/").unwrap_or((rest, ""));
    [before, CSS, style, between, &json, behind, DOM, script, after].concat()
}
