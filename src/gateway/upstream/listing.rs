//! What a server offers, page by page.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde::Serialize;
use serde_json::Value;

/// A listing of more pages is taken for one without end.
const MAX_PAGES: usize = 1_000;
/// A listing may take as long as this many pages that each come at the last moment.
const SLOW_PAGES: u32 = 10;

/// One page, in whatever form it was understood.
struct Page {
    items: Vec<Value>,
    next: Option<String>,
}

/// All items of a listing: `request` makes the request of a page, `key` is where a page that was
/// not understood as a whole has its items.
async fn all(
    peer: &Peer<RoleClient>,
    patience: Duration,
    key: &str,
    request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
) -> Result<Vec<Value>, String> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    let (began, most) = (Instant::now(), patience * SLOW_PAGES);
    for _ in 0..MAX_PAGES {
        if began.elapsed() > most {
            return Err(format!(
                "its listing of {key} did not end within {} seconds",
                most.as_secs_f64()
            ));
        }
        let params = cursor
            .clone()
            .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let options = PeerRequestOptions::with_timeout(patience);
        let answer = async {
            peer.send_request_with_option(request(params), options).await?.await_response().await
        };
        let page = page(answer.await.map_err(|error| words(key, &error))?, key)
            .ok_or_else(|| format!("its answer to the listing of {key} has no list"))?;
        items.extend(page.items);
        match page.next.filter(|next| !next.is_empty()) {
            None => return Ok(items),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(format!("its listing of {key} comes back to the page '{next}'"));
            }
            Some(next) => cursor = Some(next),
        }
    }
    Err(format!("its listing of {key} has more than {MAX_PAGES} pages"))
}

fn page(result: ServerResult, key: &str) -> Option<Page> {
    fn values<T: Serialize>(items: Vec<T>) -> Vec<Value> {
        items.into_iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
    }
    match result {
        ServerResult::ListToolsResult(page) => {
            Some(Page { items: values(page.tools), next: page.next_cursor })
        }
        ServerResult::ListResourcesResult(page) => {
            Some(Page { items: values(page.resources), next: page.next_cursor })
        }
        ServerResult::ListResourceTemplatesResult(page) => {
            Some(Page { items: values(page.resource_templates), next: page.next_cursor })
        }
        ServerResult::ListPromptsResult(page) => {
            Some(Page { items: values(page.prompts), next: page.next_cursor })
        }
        // One bad entry makes the page unreadable as a whole; the others are still good.
        other => {
            let mut value = serde_json::to_value(other).ok()?;
            let next = value.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            match value.get_mut(key).map(Value::take) {
                Some(Value::Array(items)) => Some(Page { items, next }),
                _ => None,
            }
        }
    }
}

fn words(key: &str, error: &ServiceError) -> String {
    match error {
        ServiceError::Timeout { timeout } => {
            format!("it did not list its {key} within {} seconds", timeout.as_secs_f64())
        }
        ServiceError::McpError(error) => {
            format!("it refused to list its {key}: {}", error.message)
        }
        other => format!("it could not be asked for its {key}: {other}"),
    }
}

/// The tools, each as JSON.
pub(super) async fn tools(
    peer: &Peer<RoleClient>,
    patience: Duration,
) -> Result<Vec<Value>, String> {
    all(peer, patience, "tools", |params| {
        ClientRequest::ListToolsRequest(ListToolsRequest { params, ..ListToolsRequest::default() })
    })
    .await
}

/// The resources and the templates of resources.
pub(super) async fn resources(
    peer: &Peer<RoleClient>,
    patience: Duration,
) -> Result<(Vec<rmcp::model::Resource>, Vec<rmcp::model::ResourceTemplate>), String> {
    let resources = all(peer, patience, "resources", |params| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest {
            params,
            ..ListResourcesRequest::default()
        })
    })
    .await?;
    // Servers without templates may not know the method.
    let templates = all(peer, patience, "resourceTemplates", |params| {
        ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
            params,
            ..ListResourceTemplatesRequest::default()
        })
    })
    .await
    .unwrap_or_default();
    Ok((typed(resources), typed(templates)))
}

/// The prompts.
pub(super) async fn prompts(
    peer: &Peer<RoleClient>,
    patience: Duration,
) -> Result<Vec<rmcp::model::Prompt>, String> {
    let prompts = all(peer, patience, "prompts", |params| {
        ClientRequest::ListPromptsRequest(ListPromptsRequest {
            params,
            ..ListPromptsRequest::default()
        })
    })
    .await?;
    Ok(typed(prompts))
}

fn typed<T: serde::de::DeserializeOwned>(values: Vec<Value>) -> Vec<T> {
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}
