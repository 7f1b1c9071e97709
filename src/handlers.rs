//! Tools with an executor of their own, beside tools that only have a schema.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::ToolId;
use crate::session::Authorized;

/// What an executor's failure is.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// What an executor answers.
pub type HandlerResult = std::result::Result<Value, HandlerError>;

/// The answer of an executor that is on its way.
pub type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// Runs one tool. Closures `Fn(&Value) -> HandlerResult` are handlers.
pub trait Handler: Send + Sync {
    /// Runs the tool with the arguments of a call.
    ///
    /// # Errors
    /// Whatever keeps the tool from answering; the runtime tells the model.
    fn call(&self, arguments: &Value) -> HandlerResult;
}

impl<F: Fn(&Value) -> HandlerResult + Send + Sync> Handler for F {
    fn call(&self, arguments: &Value) -> HandlerResult {
        self(arguments)
    }
}

/// Runs one tool without blocking. Closures `Fn(Value) -> HandlerFuture` are such handlers.
pub trait AsyncHandler: Send + Sync {
    /// Begins to run the tool with the arguments of a call.
    fn call(&self, arguments: Value) -> HandlerFuture;
}

impl<F: Fn(Value) -> HandlerFuture + Send + Sync> AsyncHandler for F {
    fn call(&self, arguments: Value) -> HandlerFuture {
        self(arguments)
    }
}

#[derive(Clone)]
enum Executor {
    Sync(Arc<dyn Handler>),
    Async(Arc<dyn AsyncHandler>),
}

/// Executors of tools, by id.
///
/// A catalog describes tools and runs none. Those that the runtime can run itself are registered
/// here; the others stay schema-only, and their calls go wherever the runtime sends them. Only an
/// [`Authorized`] call can be dispatched, so nothing runs past the session's gate.
///
/// # Example
/// ```
/// use serde_json::{Value, json};
/// use toolrack::{Call, Catalog, Dispatch, Engine, Handlers, SessionOptions, Verdict};
///
/// let catalog = Catalog::parse(r#"[{"name": "add"}, {"name": "deploy"}]"#)?;
/// let mut run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
/// run.visible(); // sent to the model
///
/// let mut handlers = Handlers::default();
/// handlers.register("default/add".parse()?, |arguments: &Value| {
///     Ok(json!(arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0)))
/// });
///
/// for (call, local) in [
///     (Call::new("add", json!({"a": 1, "b": 2})), true),
///     (Call::new("deploy", json!({})), false),
/// ] {
///     let Verdict::Run(tool) = run.authorize(&call)? else { panic!() };
///     match handlers.dispatch(&tool, &call.arguments) {
///         Dispatch::Done(answer) => assert_eq!(answer.unwrap(), json!(3)),
///         Dispatch::Pending(_) => unreachable!("no async handler is registered"),
///         Dispatch::SchemaOnly => assert!(!local), // run it yourself
///     }
///     run.record_use(&tool);
/// }
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Handlers {
    executors: HashMap<ToolId, Executor>,
}

/// What became of a dispatched call.
pub enum Dispatch {
    /// The handler ran.
    Done(HandlerResult),
    /// The handler runs while this is awaited.
    Pending(HandlerFuture),
    /// The tool has no handler: run it yourself.
    SchemaOnly,
}

impl Handlers {
    /// Registers the executor of a tool; whether it took the place of another one.
    pub fn register(&mut self, tool: ToolId, handler: impl Handler + 'static) -> bool {
        self.executors.insert(tool, Executor::Sync(Arc::new(handler))).is_some()
    }

    /// Registers an executor that does not block; whether it took the place of another one.
    ///
    /// # Example
    /// ```
    /// use serde_json::{Value, json};
    /// use toolrack::Handlers;
    ///
    /// let mut handlers = Handlers::default();
    /// let replaced = handlers.register_async("web/fetch".parse()?, |arguments: Value| {
    ///     let answer: toolrack::HandlerFuture =
    ///         Box::pin(async move { Ok(json!({"fetched": arguments["url"]})) });
    ///     answer
    /// });
    /// assert!(!replaced);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn register_async(&mut self, tool: ToolId, handler: impl AsyncHandler + 'static) -> bool {
        self.executors.insert(tool, Executor::Async(Arc::new(handler))).is_some()
    }

    /// Takes the executor of a tool away, which makes it schema-only; whether there was one.
    pub fn remove(&mut self, tool: &ToolId) -> bool {
        self.executors.remove(tool).is_some()
    }

    /// Whether a tool has an executor.
    pub fn contains(&self, tool: &ToolId) -> bool {
        self.executors.contains_key(tool)
    }

    /// Runs an authorised call, or begins to.
    pub fn dispatch(&self, tool: &Authorized, arguments: &Value) -> Dispatch {
        match self.executors.get(tool.id()) {
            None => Dispatch::SchemaOnly,
            Some(Executor::Sync(handler)) => Dispatch::Done(handler.call(arguments)),
            Some(Executor::Async(handler)) => Dispatch::Pending(handler.call(arguments.clone())),
        }
    }

    /// Runs an authorised call to its end; `None` when the tool is schema-only.
    ///
    /// A handler that is not async runs where this is polled.
    pub async fn run(&self, tool: &Authorized, arguments: &Value) -> Option<HandlerResult> {
        match self.dispatch(tool, arguments) {
            Dispatch::Done(answer) => Some(answer),
            Dispatch::Pending(answer) => Some(answer.await),
            Dispatch::SchemaOnly => None,
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tools: Vec<&ToolId> = self.executors.keys().collect();
        tools.sort();
        f.debug_tuple("Handlers").field(&tools).finish()
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(answer) => f.debug_tuple("Done").field(answer).finish(),
            Self::Pending(_) => f.write_str("Pending(..)"),
            Self::SchemaOnly => f.write_str("SchemaOnly"),
        }
    }
}
