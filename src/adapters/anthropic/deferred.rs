//! Anthropic's deferred loading.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::list::{ToolList, defers, raw};
use super::super::{items, text};
use super::{meta_tool, result, tool, written};
use crate::catalog::{Shape, VisibleTool};
use crate::error::Result;
use crate::session::{Call, Entry, FindReply, FindStatus, Session};

/// Fields that a deferred tool must not have: it cannot be cached, and tool search does not go with
/// examples of use.
const NOT_DEFERRED: &[&str] = &["defer_loading", "cache_control", "input_examples"];
/// What a search result says whose tools are gone.
const GONE: &str = "The tools that this search found are not available any more.";
/// Fields that no tool must have in a request with a search.
const NOT_SEARCHED: &[&str] = &["defer_loading", "input_examples"];

/// What searches the deferred tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Search {
    /// The meta-tool, carried out by [`Session::find_tool`] and answered by [`references`].
    Client,
    /// Anthropic's search in plain words, `tool_search_tool_bm25_20251119`.
    Bm25,
    /// Anthropic's search by Python's regular expressions, `tool_search_tool_regex_20251119`.
    Regex,
}

impl Search {
    /// The name by which the model calls it; `None` for the meta-tool, whose name the session sets.
    ///
    /// A session whose meta-tool is called so tells the model of the right search in its refusals.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Client => None,
            Self::Bm25 => Some("tool_search_tool_bm25"),
            Self::Regex => Some("tool_search_tool_regex"),
        }
    }
}

/// The list for `tools` of a messages request: all that the caller may use, what is not visible
/// with `"defer_loading": true`.
///
/// `messages` is the history that the request carries, a list of messages. A tool that a search in
/// it brought stays deferred although it is visible by now: the API demands so for the reference,
/// and the cached beginning of the request stays as it was. After a compaction that drops the
/// references the same tool goes out in full.
///
/// What the history refers to and the caller may not use any more, or nobody, is not in the list:
/// Anthropic refuses such a request. [`ToolList::missing_references`] has the names, and
/// [`forget_references`] makes the history fit the list again.
///
/// Order: core, search, built-in tools, the visible ones, and then the deferred ones in catalog
/// order. Anthropic leaves the latter out of what is cached. When nothing is deferred there is no
/// search of Anthropic's. `cache_control` is dropped from deferred tools, `input_examples` from all.
///
/// A built-in tool may bring deferred tools along (an `mcp_toolset` with `defer_loading`). Only
/// Anthropic's search finds them: with [`Search::Client`] the catalog has to hold one beside it.
///
/// After Anthropic's own search tell the session what it brought, or calls are refused:
/// [`Session::note_shown`] with [`discovered`]. Render the list for every request.
///
/// # Errors
/// As [`ToolList::validate`], which is applied.
///
/// # Example: Anthropic's search
/// ```
/// use serde_json::json;
/// use toolrack::{Catalog, Engine, SessionOptions, anthropic};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "read_state", "input_schema": {"type": "object"}},
///         {"name": "create_ticket", "input_schema": {"type": "object"}}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let run = engine.session(SessionOptions::default().core(["read_state"]).limit(1))?;
/// assert_eq!(
///     anthropic::deferred(&run, anthropic::Search::Bm25, &json!([]))?.json(),
///     concat!(
///         r#"[{"name":"read_state","input_schema":{"type": "object"}},"#,
///         r#"{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"},"#,
///         r#"{"name":"create_ticket","input_schema":{"type": "object"},"defer_loading":true}]"#,
///     ),
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn deferred(session: &Session, search: Search, messages: &Value) -> Result<ToolList> {
    let visible = session.visible();
    let referenced: HashSet<String> = discovered(messages).into_iter().collect();
    let in_full = visible.tools().iter().filter(|tool| !referenced.contains(&tool.name));
    let names: HashSet<&str> = in_full.map(|tool| tool.name.as_str()).collect();
    let rest: Vec<&Arc<VisibleTool>> =
        session.eligible_tools().filter(|tool| !names.contains(tool.name.as_str())).collect();

    let mut list = ToolList::new(Shape::Anthropic);
    list.search.clone_from(&session.meta_tool().name);
    let brought = list.takes_deferring(&visible);
    let hosted = search != Search::Client;
    let searched = !rest.is_empty() || (brought && hosted);
    let place = |list: &mut ToolList, entry: Entry<'_>| {
        if let Entry::Tool(shown) = entry
            && names.contains(shown.name.as_str())
        {
            let examples = shown.tool.original_field("input_examples").is_some();
            list.push(match examples && (searched || brought) {
                true => written(shown, NOT_SEARCHED, None),
                false => tool(shown),
            });
        }
    };
    for entry in visible.lead() {
        place(&mut list, entry);
    }
    if searched {
        list.push(match search.name() {
            Some(name) => raw(format!(r#"{{"type":"{name}_20251119","name":"{name}"}}"#)),
            None => meta_tool(session.meta_tool()),
        });
    }
    // Anthropic's search is in the list already, unless the client searches.
    list.push_builtins(&visible, !hosted);
    for entry in visible.rest() {
        place(&mut list, entry);
    }
    for shown in &rest {
        list.push(written(shown, NOT_DEFERRED, Some(("defer_loading", "true"))));
    }
    list.validate()?;
    if !referenced.is_empty() {
        let known = Known::of(&list);
        list.missing = found(messages, |name, by| !known.has(name, by));
    }
    Ok(list)
}

/// Who searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Client,
    Anthropic,
}

/// Who searched for the result in `block`, and where its list of references is.
fn search_result(block: &Value) -> Option<(By, &'static str)> {
    match text(block, "type")? {
        "tool_result" => Some((By::Client, "/content")),
        "tool_search_tool_result" => Some((By::Anthropic, "/content/tool_references")),
        _ => None,
    }
}

/// The tool that `block` refers to.
fn referred(block: &Value) -> Option<&str> {
    text(block, "tool_name").filter(|_| text(block, "type") == Some("tool_reference"))
}

/// Names in the search results of `messages` that are `wanted`, once each, in order.
fn found(messages: &Value, wanted: impl Fn(&str, By) -> bool) -> Vec<String> {
    let listed = messages.as_array().into_iter().flatten();
    let mut names: Vec<String> = Vec::new();
    for block in listed.chain([messages]).flat_map(|message| items(message, "content")) {
        let Some((by, place)) = search_result(block) else { continue };
        let references = block.pointer(place).and_then(Value::as_array).into_iter().flatten();
        for name in references.filter_map(referred) {
            if wanted(name, by) && names.iter().all(|other| other != name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// What a history may refer to beside a list.
struct Known {
    names: HashSet<String>,
    /// Whether a built-in tool brings tools along whose names only Anthropic knows.
    brought: bool,
}

impl Known {
    fn of(list: &ToolList) -> Self {
        let entries = list.iter().filter_map(|json| serde_json::from_str::<Value>(json).ok());
        let mut known = Self { names: HashSet::new(), brought: false };
        for entry in entries {
            known.brought |= entry.get("input_schema").is_none() && defers(&entry);
            known.names.extend(text(&entry, "name").map(str::to_owned));
        }
        known
    }

    fn has(&self, name: &str, by: By) -> bool {
        self.names.contains(name) || (self.brought && by == By::Anthropic)
    }
}

/// Makes a history fit `list`: drops the references to tools that the list lacks, since Anthropic
/// refuses a request with one. The names that were dropped, once each, in order; none when the history
/// fits, which then keeps its bytes.
///
/// `messages` is a list of messages, or one message. A result of the client's search that loses all
/// of its references says in words that the tools are gone; one of Anthropic's search is left with
/// nothing found. What Anthropic found is kept when the list has a server whose tools are deferred:
/// it may be that server's. The prompt cache ends where the history changes, so keep what comes out
/// as the history.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Catalog, Engine, SessionOptions, anthropic};
/// use toolrack::anthropic::Search;
///
/// let mut messages = json!([{"role": "user", "content": [
///     {"type": "tool_result", "tool_use_id": "toolu_1",
///      "content": [{"type": "tool_reference", "tool_name": "create_ticket"}]}]}]);
/// // The tool has left the catalog since.
/// let catalog = Catalog::parse(r#"[{"name": "read_state"}, {"name": "list_invoices"}]"#)?;
/// let run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
/// let list = anthropic::deferred(&run, Search::Client, &messages)?;
/// assert_eq!(list.missing_references(), ["create_ticket"]);
///
/// assert_eq!(anthropic::forget_references(&mut messages, &list), ["create_ticket"]);
/// assert_eq!(messages[0]["content"][0]["content"], json!([
///     {"type": "text", "text": "The tools that this search found are not available any more."}]));
/// assert!(anthropic::deferred(&run, Search::Client, &messages)?.missing_references().is_empty());
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn forget_references(messages: &mut Value, list: &ToolList) -> Vec<String> {
    let known = Known::of(list);
    let gone = found(messages, |name, by| !known.has(name, by));
    if gone.is_empty() {
        return gone;
    }
    match messages {
        Value::Array(listed) => listed.iter_mut().for_each(|message| forget(message, &known)),
        message => forget(message, &known),
    }
    gone
}

fn forget(message: &mut Value, known: &Known) {
    let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) else { return };
    for block in blocks {
        let Some((by, place)) = search_result(block) else { continue };
        let Some(Value::Array(list)) = block.pointer_mut(place) else { continue };
        let before = list.len();
        list.retain(|block| referred(block).is_none_or(|name| known.has(name, by)));
        // An empty result says that the call brought nothing, which a model takes for a failure.
        if list.is_empty() && before > 0 && by == By::Client {
            list.push(json!({"type": "text", "text": GONE}));
        }
    }
}

/// Names of the tools that a search in `messages` brought, once each, in order: Anthropic's own
/// (`tool_search_tool_result`) or the client's (`tool_reference` in a `tool_result`).
///
/// `messages` is a list of messages, or one message.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::anthropic;
///
/// let message = json!({"role": "assistant", "content": [
///     {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "tickets"}},
///     {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {
///         "type": "tool_search_tool_search_result",
///         "tool_references": [{"type": "tool_reference", "tool_name": "create_ticket"}]}}]});
/// assert_eq!(anthropic::discovered(&message), ["create_ticket"]);
/// ```
pub fn discovered(messages: &Value) -> Vec<String> {
    found(messages, |_, _| true)
}

/// The answer to a search of the client's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Referenced {
    /// The `tool_result` block: references alone, or words alone when there is nothing to refer to.
    pub result: Value,
    /// What the references do not say, for a text block behind all results of the message: tools that
    /// were not loaded or only come near, how many fit in all, names that do not exist, that the search
    /// was made before or went by words alone. `None` when they say it all.
    pub note: Option<String>,
}

/// The answer to a call of the meta-tool as `tool_reference` blocks, which the API expands to full
/// definitions.
///
/// `sent` is the list of the request that was answered with the call, rendered by [`deferred`] with
/// [`Search::Client`]. Only tools that are deferred in it are referred to, as the API demands; the
/// rest is told in words. Put the result into the history before the next list is rendered.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Call, Catalog, Engine, FindRequest, SessionOptions, anthropic};
/// use toolrack::anthropic::Search;
///
/// let catalog = Catalog::parse(r#"[{"name": "read_state"}, {"name": "create_ticket"}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let mut run = engine.session(SessionOptions::default().core(["read_state"]).limit(2).pass_through(0))?;
/// let mut messages = vec![json!({"role": "user", "content": "open a ticket"})];
/// let sent = anthropic::deferred(&run, Search::Client, &json!(messages))?;
///
/// let call = Call::new("find_tool", json!({"names": ["create_ticket"]})).with_id("toolu_1");
/// let reply = run.find_tool(&FindRequest::from_arguments(&call.arguments)?)?;
/// let answer = anthropic::references(&call, &reply, &sent);
/// assert_eq!(answer.result, json!({"type": "tool_result", "tool_use_id": "toolu_1",
///     "content": [{"type": "tool_reference", "tool_name": "create_ticket"}]}));
///
/// // Loaded, and not a byte of the list has changed.
/// messages.push(anthropic::message([answer.result]));
/// let next = anthropic::deferred(&run, Search::Client, &json!(messages))?;
/// assert_eq!(next.json(), sent.json());
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn references(call: &Call, reply: &FindReply, sent: &ToolList) -> Referenced {
    let deferred: HashSet<String> = sent
        .iter()
        .filter_map(|json| serde_json::from_str::<Value>(json).ok())
        .filter(|entry| entry.get("defer_loading") == Some(&Value::Bool(true)))
        .filter_map(|entry| text(&entry, "name").map(str::to_owned))
        .collect();
    let found = reply.loaded.iter().chain(&reply.visible);
    let (referred, told): (Vec<_>, Vec<_>) =
        found.partition(|tool| deferred.contains(tool.name.as_str()));
    if referred.is_empty() {
        return Referenced { result: result(call, reply), note: None };
    }
    let blocks: Vec<Value> = referred
        .iter()
        .map(|tool| json!({"type": "tool_reference", "tool_name": tool.name}))
        .collect();
    let says_all = told.is_empty()
        && reply.not_loaded.is_empty()
        && reply.ambiguous.is_empty()
        && reply.near.is_empty()
        && reply.unknown_names.is_empty()
        && reply.definitions.is_empty()
        && reply.total <= reply.shown
        && reply.degraded.is_none()
        && reply.status != FindStatus::Repeated;
    Referenced {
        result: json!({
            "type": "tool_result",
            "tool_use_id": call.id.as_deref().unwrap_or_default(),
            "content": blocks,
        }),
        note: (!says_all).then(|| reply.text()),
    }
}
