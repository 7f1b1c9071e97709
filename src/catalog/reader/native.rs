//! This project's own definitions.

use super::{Shape, common};
use crate::catalog::policy::{Risk, ToolPolicy};
use crate::catalog::raw::RawObject;
use crate::catalog::tool::ToolBuilder;
use crate::error::{Error, ErrorKind, Result};

pub(crate) const KNOWN: &[&str] = &[
    "name",
    "namespace",
    "title",
    "description",
    "parameters",
    "examples",
    "aliases",
    "tags",
    "policy",
    "enabled",
    "environments",
    "scopes",
    "roles",
    "stages",
    "tenants",
    "flags",
    "risk",
    "version",
    "source",
];

/// `name`, and as far as they are there `namespace` (or `server`), `title`, `description`,
/// `parameters`, `examples`, `aliases`, `tags`, and the policy, under `policy` or beside the rest.
pub(crate) fn tool(fields: RawObject) -> Result<ToolBuilder> {
    let policy = policy(&fields)?;
    let states_risk = fields.contains("risk")
        || fields.object("policy")?.is_some_and(|policy| policy.contains("risk"));
    let namespace = fields.string("namespace")?.filter(|text| !text.trim().is_empty());
    let server = fields.string("server").ok().flatten().filter(|text| !text.trim().is_empty());
    let mut builder = common(Shape::Native, fields, "parameters", KNOWN)?;
    builder.policy = policy;
    builder.states_risk = states_risk;
    if let Some(original) = &builder.original {
        builder.examples = original.fields.strings("examples")?;
        builder.aliases = original.fields.strings("aliases")?;
        builder.tags = original.fields.strings("tags")?;
    }
    // Public listings name servers `owner/name`; an id has one slash.
    builder.namespace = namespace.or(server).map(|text| text.replace('/', "."));
    Ok(builder)
}

fn policy(fields: &RawObject) -> Result<ToolPolicy> {
    let mut policy = match fields.get("policy") {
        None => ToolPolicy::default(),
        Some(raw) => serde_json::from_str(raw.get()).map_err(|error| {
            Error::new(ErrorKind::InvalidTool, format!("field 'policy' is not a policy ({error})"))
        })?,
    };
    if let Some(enabled) = fields.boolean("enabled")? {
        policy.enabled = enabled;
    }
    for (key, list) in [
        ("environments", &mut policy.environments),
        ("scopes", &mut policy.scopes),
        ("roles", &mut policy.roles),
        ("stages", &mut policy.stages),
        ("tenants", &mut policy.tenants),
        ("flags", &mut policy.flags),
    ] {
        if fields.contains(key) {
            *list = fields.strings(key)?;
        }
    }
    if let Some(risk) = fields.string("risk")? {
        policy.risk = match risk.as_str() {
            "read" => Risk::Read,
            "write" => Risk::Write,
            "destructive" => Risk::Destructive,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidTool,
                    format!("field 'risk' is '{other}': use read, write or destructive"),
                ));
            }
        };
    }
    if fields.contains("version") {
        policy.version = fields.string("version")?;
    }
    if fields.contains("source") {
        policy.source = fields.string("source")?;
    }
    Ok(policy)
}
