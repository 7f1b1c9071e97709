//! A tool as a provider is told of it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

use super::reader::Shape;
use super::tool::Tool;

/// A tool and the provider-safe name by which the model calls it.
///
/// It keeps its rendered definitions: they depend on nothing but the tool and its name, so a list is
/// put together from ready bytes.
pub struct VisibleTool {
    /// The tool.
    pub tool: Tool,
    /// Its provider-safe name.
    pub name: String,
    /// One rendering a shape, made when first asked for.
    rendered: [OnceLock<Arc<RawValue>>; Shape::ALL.len()],
}

impl VisibleTool {
    pub(crate) fn new(tool: Tool, name: String) -> Self {
        Self { tool, name, rendered: Default::default() }
    }

    /// The definition in `shape` as `render` makes it, which has to depend on nothing else.
    pub(crate) fn rendered(
        &self,
        shape: Shape,
        render: impl FnOnce(&Self) -> Arc<RawValue>,
    ) -> Arc<RawValue> {
        let cell = &self.rendered[shape as usize];
        Arc::clone(cell.get_or_init(|| render(self)))
    }
}

impl fmt::Debug for VisibleTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisibleTool").field("tool", &self.tool).field("name", &self.name).finish()
    }
}

impl PartialEq for VisibleTool {
    /// Whether tool and name are the same.
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool && self.name == other.name
    }
}

impl Eq for VisibleTool {}
