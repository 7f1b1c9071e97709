//! Catalogs and requests that the benches share.

use anyhow::{Context as _, Result};
use toolrack::{Catalog, Listing, Tool};

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

/// A request of 15 words whose answer is `billing/list_invoices`.
pub(crate) const REQUEST: &str =
    "please list all of the invoices that we issued to our customers in the last month";

/// Fails unless `names` has `name` among its first ten.
pub(crate) fn assert_found<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Result<()> {
    names.take(10).find(|found| *found == name).map(|_| ()).with_context(|| {
        format!("'{name}' is not among the first ten: the bench would time a wrong answer")
    })
}
