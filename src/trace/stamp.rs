//! What makes two catalogs, and two policies, the same.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{Hidden, PolicyStamp};
use super::sink::TraceLevel;
use crate::catalog::{Builtin, Snapshot, ToolId};
use crate::digest::sha256_hex;
use crate::select::{Eligible, RuntimeContext, policy};

/// Which catalog a trace stands on.
///
/// The version counts the changes of one process; the digest is the same in every process for the
/// same tools in the same order.
///
/// # Example
/// ```
/// use toolrack::Catalog;
/// use toolrack::trace::CatalogStamp;
///
/// let (a, b) = (Catalog::parse(r#"[{"name": "a"}]"#)?, Catalog::parse(r#"[{"name": "a"}]"#)?);
/// assert_eq!(CatalogStamp::of(&a.snapshot()), CatalogStamp::of(&b.snapshot()));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CatalogStamp {
    /// Version of the snapshot.
    pub version: u64,
    /// SHA-256 (hexadecimal) over every tool, in order, and the built-ins.
    pub digest: String,
    /// How many tools there are.
    pub tools: usize,
}

impl CatalogStamp {
    /// The stamp of `snapshot`. Reads every tool's hash: once a snapshot is often enough.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut text = String::with_capacity(snapshot.len() * 66);
        for tool in snapshot.tools() {
            text += tool.content_hash();
            text.push('\n');
        }
        for builtin in snapshot.builtins() {
            text += builtin.json();
            text.push('\n');
        }
        Self { version: snapshot.version(), digest: sha256_hex(text), tools: snapshot.len() }
    }
}

impl fmt::Display for CatalogStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.digest.get(..12).unwrap_or(&self.digest);
        write!(f, "version {} ({} tools, digest {short})", self.version, self.tools)
    }
}

/// Digits of a policy version: enough to tell policies apart, short enough to read.
const POLICY_DIGITS: usize = 16;

/// Who may use what of `snapshot`, with the hidden tools for an operator.
pub(crate) fn policy_stamp(
    snapshot: &Snapshot,
    eligible: &Eligible,
    context: &RuntimeContext,
    options: &Value,
    level: TraceLevel,
) -> PolicyStamp {
    let written = narrowed(snapshot, eligible, context);
    let mut text = json(&written);
    text += &json(options);
    let mut hidden = Vec::new();
    for (row, tool) in snapshot.tools().enumerate() {
        text += &json(tool.policy());
        if level == TraceLevel::Operator
            && !eligible.contains(row)
            && let Err(reason) = policy::check(tool, context)
        {
            hidden.push(Hidden { tool: tool.id().clone(), reason });
        }
    }
    let mut version = sha256_hex(text);
    version.truncate(POLICY_DIGITS);
    PolicyStamp {
        version,
        context: match level {
            TraceLevel::Run => written,
            TraceLevel::Operator => context.clone(),
        },
        eligible: eligible.count(),
        excluded: snapshot.len() - eligible.count(),
        hidden: (level == TraceLevel::Operator).then_some(hidden),
    }
}

/// `context` with an allow-list of the tools that may be used, built-in ones included: which others
/// it names decides nothing and would tell of hidden tools.
fn narrowed(snapshot: &Snapshot, eligible: &Eligible, context: &RuntimeContext) -> RuntimeContext {
    let builtins = snapshot.builtins().map(Builtin::id);
    let builtins: Vec<&ToolId> = builtins.filter(|id| context.names(id)).collect();
    let mut context = context.clone();
    if let Some(tools) = &mut context.tools {
        tools.retain(|id| {
            snapshot.row(id).is_some_and(|row| eligible.contains(row)) || builtins.contains(&id)
        });
    }
    context
}

/// `value` with the keys of its objects in order, whatever order the JSON library keeps.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            fields.into_iter().map(|(key, value)| (key, sorted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        plain => plain,
    }
}

fn json(value: &impl Serialize) -> String {
    // Plain data with string keys always has a JSON form.
    serde_json::to_string(value).unwrap_or_default()
}
