//! `tools/list` and the gateway's own tools.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, ListToolsResult};
use serde_json::Value;

use crate::catalog::ToolId;
use crate::error::Error;
use crate::gateway::hub::Hub;
use crate::gateway::sessions::ClientSession;
use crate::gateway::settings::Mode;
use crate::gateway::words;
use crate::session::{FindReply, FindRequest, FoundTool};

impl Hub {
    pub(crate) async fn list_tools(
        &self,
        session: &Arc<ClientSession>,
    ) -> Result<ListToolsResult, ErrorData> {
        let own = words::own_tools(session.identity.mode, &self.settings.session.meta_tool);
        if session.identity.mode == Mode::Bridge {
            return Ok(ListToolsResult::with_all_items(own));
        }
        self.settle().await;
        let settled = self.is_settled();
        let list = session
            .run
            .with(move |run| run.list(settled))
            .await
            .and_then(|list| list)
            .map_err(internal)?;
        if list.followed {
            session.has_followed();
        }
        self.metrics.list_sent(list.tokens.sent, list.tokens.naive);
        let mut tools: Vec<_> =
            list.tools.iter().map(|tool| words::definition(&tool.tool, &tool.name)).collect();
        if !list.whole {
            // After the core and before what comes and goes, so that the beginning stays the same.
            tools.splice(list.core..list.core, own);
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    /// Carries out a search and says what came of it.
    pub(crate) async fn find(
        &self,
        session: &Arc<ClientSession>,
        request: FindRequest,
    ) -> Result<CallToolResult, ErrorData> {
        let settled = self.is_settled();
        let mode = session.identity.mode;
        let show = mode == Mode::Bridge || !session.follows();
        let (reply, definitions) = session
            .run
            .with(move |run| {
                let reply = run.find(settled, &request)?;
                let definitions = run.definitions(&ids(&reply));
                Ok::<_, Error>((reply, definitions))
            })
            .await
            .and_then(|outcome| outcome)
            .map_err(internal)?;
        let status = serde_json::to_value(reply.status).unwrap_or_default();
        self.metrics.searched(status.as_str().unwrap_or_default().to_owned());
        self.announce(session).await;
        self.keep_state(session);
        Ok(words::found(&reply, mode, show.then_some(&definitions[..])))
    }

    /// Shows definitions, and counts the tools as shown.
    pub(crate) async fn describe(
        &self,
        session: &Arc<ClientSession>,
        arguments: &JsonObject,
    ) -> Result<CallToolResult, ErrorData> {
        let names = words::names(arguments);
        if names.is_empty() {
            return Ok(words::failed(format!(
                "{} was not understood: give 'name' or 'names' of tools.",
                words::DESCRIBE_TOOL
            )));
        }
        let settled = self.is_settled();
        let (definitions, unknown) = session
            .run
            .with(move |run| {
                let (mut known, mut unknown) = (Vec::new(), Vec::new());
                for name in names {
                    match run.definition_of(&name) {
                        Some(definition) => known.push(definition),
                        None => unknown.push(name),
                    }
                }
                if !known.is_empty() {
                    let ids = known.iter().map(|(_, tool)| tool.id().to_string());
                    run.find(settled, &FindRequest::of_names(ids))?;
                }
                Ok::<_, Error>((known, unknown))
            })
            .await
            .and_then(|outcome| outcome)
            .map_err(internal)?;
        self.announce(session).await;
        self.keep_state(session);
        Ok(words::described(&definitions, &unknown))
    }

    pub(crate) fn find_arguments(&self, arguments: &JsonObject) -> Result<FindRequest, String> {
        FindRequest::from_arguments(&Value::Object(arguments.clone())).map_err(|error| {
            format!("{} was not understood: {error}.", self.settings.session.meta_tool)
        })
    }
}

/// The tools of a reply, best first.
fn ids(reply: &FindReply) -> Vec<ToolId> {
    let id = |tool: &FoundTool| tool.id.clone();
    reply.visible.iter().map(id).chain(reply.loaded.iter().map(id)).collect()
}

pub(super) fn internal(error: Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
