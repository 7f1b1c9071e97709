//! Catalogs and requests that the benches share.

use anyhow::{Context as _, Result};
use toolrack::{Catalog, Listing, RuntimeContext, Snapshot, Tool, ToolPolicy};

/// The tools of the example, as often as it takes to make `n`, each copy in namespaces and with
/// words of its own.
pub(crate) fn catalog(n: usize) -> Result<Catalog> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");
    let originals: Vec<Tool> = Catalog::read(path)?.snapshot().tools().cloned().collect();
    let mut tools = Vec::with_capacity(n);
    for place in 0..n {
        let original = &originals[place % originals.len()];
        let copy = place / originals.len();
        if copy == 0 {
            tools.push(original.clone());
            continue;
        }
        let mut builder = Tool::builder(original.name())
            .namespace(format!("{}_{copy}", original.namespace()))
            .description(format!("{} Tenant {copy}, region r{copy}.", original.description()));
        if let Some(parameters) = original.parameters() {
            builder = builder.parameters_json(parameters);
        }
        tools.push(builder.build()?);
    }
    Ok(Catalog::from_listing("bench", Listing::from_tools(tools))?)
}

/// [`catalog`] with conditions on every tool, in a dozen combinations; one tool of ten asks for a
/// scope that [`context`] has not.
#[allow(dead_code, reason = "every bench has the whole of this file")]
pub(crate) fn guarded(n: usize) -> Result<Catalog> {
    let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let mut tools = Vec::with_capacity(n);
    for (place, tool) in catalog(n)?.snapshot().tools().enumerate() {
        let mut policy = ToolPolicy::default();
        policy.scopes = list(if place % 10 == 9 { &["admin"] } else { &["read", "tools"] });
        policy.roles = list(&[["agent", "bookkeeper"], ["clerk", "agent"]][place % 2]);
        policy.environments = list([&["production"][..], &["staging", "production"]][place % 2]);
        policy.stages = list([&[][..], &["collect"], &["collect", "close"]][place % 3]);
        policy.tenants = list([&[][..], &["acme"]][place % 2]);
        policy.flags = list([&["tools-v2"][..], &[]][place % 2]);
        let mut builder = Tool::builder(tool.name())
            .namespace(tool.namespace())
            .description(tool.description())
            .policy(policy);
        if let Some(parameters) = tool.parameters() {
            builder = builder.parameters_json(parameters);
        }
        tools.push(builder.build()?);
    }
    Ok(Catalog::from_listing("bench", Listing::from_tools(tools))?)
}

/// A caller that says something of every condition, for all namespaces of `snapshot`.
#[allow(dead_code, reason = "every bench has the whole of this file")]
pub(crate) fn context(snapshot: &Snapshot) -> RuntimeContext {
    RuntimeContext::default()
        .scopes(["read", "tools", "mail"])
        .roles(["agent"])
        .stage("collect")
        .environment("production")
        .tenant("acme")
        .flags(["tools-v2", "beta"])
        .approve_namespaces(snapshot.tools().map(Tool::namespace))
}

/// A request of 15 words whose answer is `billing/list_invoices`.
pub(crate) const REQUEST: &str =
    "please list all of the invoices that we issued to our customers in the last month";

/// Fails unless `names` has `name` among its first ten.
pub(crate) fn assert_found<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Result<()> {
    names.take(10).find(|found| *found == name).map(|_| ()).with_context(|| {
        format!("'{name}' is not among the first ten: the bench would time a wrong answer")
    })
}
