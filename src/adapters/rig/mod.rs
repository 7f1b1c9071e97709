//! rig (`rig-core` and `rig-agent` 0.44), behind the feature `rig`.
//!
//! Two ways, of which the second is the whole of this project:
//!
//! - [`EngineIndex`]: the engine as rig's vector-store index, so that
//!   `agent.retrieved_tools(k, index, toolset)` ranks with it. Each prompt brings its own k tools;
//!   there is no working set and nothing to ask with.
//! - [`SessionTools`]: a [`Session`](crate::Session) that drives an agent's tools: the working set
//!   as the tool list of every model call, `find_tool`, and the gate before each execution.
//!
//! rig asks for the list anew before every model call, so what `find_tool` loads can be called in
//! the next one. The futures of this module need a tokio runtime.

mod index;
mod session;

use std::future::Future;
use std::sync::Arc;

pub use index::EngineIndex;
use rig_agent::tool::{DynamicTool, ToolExecutionError, ToolOutput, ToolSet};
use rig_core::message::ToolName;
use serde_json::Value;
pub use session::SessionTools;

use super::schema;
use crate::catalog::{Shape, ToolId};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};

/// Every tool of the engine's catalog as a rig tool under its provider name, all carried out by
/// `run`: for catalogs whose tools are called through one client, such as an MCP connection.
///
/// # Errors
/// [`ErrorKind::Format`] when a schema cannot be read.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, rig};
///
/// let catalog = Catalog::parse(r#"[{"name": "add", "namespace": "math"}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let tools = rig::toolset(&engine, |id, arguments| async move {
///     Ok(format!("{id} was called with {arguments}").into())
/// })?;
/// assert!(tools.contains("math__add"));
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn toolset<F, R>(engine: &Engine, run: F) -> Result<ToolSet>
where
    F: Fn(ToolId, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolExecutionError>> + Send + 'static,
{
    let run = Arc::new(run);
    let snapshot = engine.snapshot();
    let mut set = ToolSet::default();
    for tool in snapshot.tools() {
        let name = snapshot.provider_name(tool.id()).unwrap_or_default();
        // rig does not say which provider it is for: OpenAI demands most.
        let parameters = schema::object(tool, Shape::OpenAiChat);
        let (run, id) = (Arc::clone(&run), tool.id().clone());
        set.add_dynamic_tool(dynamic_tool(
            name,
            tool.description(),
            &parameters,
            move |arguments| run(id.clone(), arguments),
        )?);
    }
    Ok(set)
}

fn dynamic_tool<F, R>(name: &str, description: &str, schema: &str, run: F) -> Result<DynamicTool>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolExecutionError>> + Send + 'static,
{
    let bad = |what: &str| {
        Error::new(ErrorKind::Format, format!("tool '{name}' has {what}: mend its definition"))
    };
    let schema = serde_json::from_str(schema)
        .map_err(|error| bad("a schema that is not JSON").with_source(error))?;
    let name = ToolName::new(name).map_err(|error| bad("an empty name").with_source(error))?;
    Ok(DynamicTool::new(name, description, schema, move |arguments| Box::pin(run(arguments))))
}
