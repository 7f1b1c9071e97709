//! The engine as an index of rig's.

use std::fmt;
use std::sync::Arc;

use rig_core::vector_store::request::{Filter, VectorSearchRequest};
use rig_core::vector_store::{
    VectorSearchIdResult, VectorSearchResult, VectorStoreError, VectorStoreIndex,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalog::Tool;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::select::{RuntimeContext, SelectRequest};

type Request = VectorSearchRequest<Filter<Value>>;
type Naming = Arc<dyn Fn(&Tool) -> String + Send + Sync>;

/// An [`Engine`] as rig's vector-store index: documents are tools, ids are the names under which
/// they are registered in a rig `ToolSet`.
///
/// A search is a selection: policy first, then fusion, then the gate, so it may give fewer than it
/// was asked for, or nothing when nothing fits. Tools that the query names come on top of the
/// number asked for. A failing model is no error: the search goes by words then, where rig's own
/// index fails the turn. Scores are fused ones, comparable within one search.
///
/// rig's filters see a tool in this project's own form (`name`, `namespace`, `policy`, ...), and a
/// document is read from the same.
///
/// # Example: retrieved tools
/// ```
/// use rig_agent::AgentBuilder;
/// use rig_core::{driver::DynModel, operation::Completion};
/// use toolrack::{Catalog, Engine, rig};
///
/// fn agent(model: DynModel<Completion>) -> toolrack::Result<rig_agent::Agent> {
///     let catalog = Catalog::parse(
///         r#"[{"name": "create_ticket", "description": "Open a helpdesk ticket."},
///             {"name": "list_invoices", "description": "List the invoices of a month."}]"#)?;
///     let engine = Engine::builder(catalog).build()?;
///     let tools = rig::toolset(&engine, |id, _| async move { Ok(format!("{id} ran").into()) })?;
///     let index = rig::EngineIndex::new(engine);
///     Ok(AgentBuilder::new(model).retrieved_tools(4, index, tools).build())
/// }
/// # let _ = agent;
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone)]
pub struct EngineIndex {
    engine: Engine,
    context: RuntimeContext,
    /// `None` for provider names.
    naming: Option<Naming>,
}

impl EngineIndex {
    /// The index over `engine`, with provider names as ids, for a caller of no particular rights.
    pub fn new(engine: Engine) -> Self {
        Self { engine, context: RuntimeContext::default(), naming: None }
    }

    /// Sets who asks: what the context may not use is never found.
    #[must_use]
    pub fn context(mut self, context: RuntimeContext) -> Self {
        self.context = context;
        self
    }

    /// Sets the name under which a tool is registered in the rig `ToolSet`.
    #[must_use]
    pub fn named_by(mut self, name: impl Fn(&Tool) -> String + Send + Sync + 'static) -> Self {
        self.naming = Some(Arc::new(name));
        self
    }

    /// Score, id and document of what fits, best first.
    fn search(&self, request: &Request) -> Result<Vec<(f64, String, Value)>> {
        let samples = usize::try_from(request.samples()).unwrap_or(usize::MAX);
        let snapshot = self.engine.snapshot();
        // A filter is applied to all that fits, or it would filter the best few to nothing.
        let k = if request.filter().is_some() { snapshot.len() } else { samples };
        let select = SelectRequest::new(request.query()).k(k).context(self.context.clone());
        let selection = self.engine.select(&select)?;
        let mut found = Vec::new();
        let mut ranked = 0;
        for candidate in &selection.candidates {
            let Some(tool) = snapshot.get(&candidate.id) else { continue };
            let document = serde_json::to_value(tool).map_err(|error| {
                Error::new(ErrorKind::Format, format!("tool {} is no JSON: mend it", tool.id()))
                    .with_source(error)
            })?;
            let score = f64::from(candidate.score.get());
            let enough = ranked == samples && !candidate.is_named();
            let below = request.threshold().is_some_and(|least| score < least);
            let filtered = request.filter().is_some_and(|filter| !filter.satisfies(&document));
            if enough || below || filtered {
                continue;
            }
            ranked += usize::from(!candidate.is_named());
            let name = match &self.naming {
                Some(naming) => naming(tool),
                None => snapshot.provider_name(tool.id()).unwrap_or_default().to_owned(),
            };
            found.push((score, name, document));
        }
        Ok(found)
    }

    async fn found(&self, request: Request) -> Result<Vec<(f64, String, Value)>> {
        let index = self.clone();
        tokio::task::spawn_blocking(move || index.search(&request)).await.map_err(|error| {
            let what = "a search was cancelled or panicked: search again";
            Error::new(ErrorKind::Task, what).with_source(error)
        })?
    }
}

impl VectorStoreIndex for EngineIndex {
    type Filter = Filter<Value>;

    async fn top_n<T: DeserializeOwned + Send>(
        &self,
        request: Request,
    ) -> Result<Vec<VectorSearchResult<T>>, VectorStoreError> {
        let mut results = Vec::new();
        for (score, id, document) in
            self.found(request).await.map_err(VectorStoreError::datastore)?
        {
            let document = serde_json::from_value(document)?;
            results.push(VectorSearchResult { score, id, document });
        }
        Ok(results)
    }

    async fn top_n_ids(
        &self,
        request: Request,
    ) -> Result<Vec<VectorSearchIdResult>, VectorStoreError> {
        let found = self.found(request).await.map_err(VectorStoreError::datastore)?.into_iter();
        Ok(found.map(|(score, id, _)| VectorSearchIdResult { score, id }).collect())
    }
}

impl fmt::Debug for EngineIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineIndex").field("context", &self.context).finish_non_exhaustive()
    }
}
