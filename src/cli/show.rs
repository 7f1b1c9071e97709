//! `toolrack show`.

use anyhow::bail;
use toolrack::Tool;

use super::meaning::Show;
use super::output::Output;
use super::{Outcome, catalog};

pub(crate) fn run(show: &Show, output: &mut Output) -> anyhow::Result<Outcome> {
    let catalog = catalog::read(&show.sources, output)?;
    let snapshot = catalog.snapshot();
    let matches = |tool: &&Tool| {
        let (id, name) = (tool.id().to_string(), tool.name());
        let provider = snapshot.provider_name(tool.id());
        id == show.name || name == show.name || provider == Some(show.name.as_str())
    };
    let ends = |tool: &&Tool| {
        let rest = tool.name().strip_suffix(show.name.as_str());
        rest.is_some_and(|rest| rest.ends_with(['_', '-', '.', '/', ':']))
    };
    let mut found: Vec<&Tool> = snapshot.tools().filter(matches).collect();
    if found.is_empty() {
        found = snapshot.tools().filter(ends).collect();
    }
    let tool = match found.as_slice() {
        [tool] => *tool,
        [] => {
            let near = toolrack::Engine::builder(catalog.clone()).build()?.rank(&show.name, 3)?;
            let near: Vec<String> = near.iter().map(|c| c.id.to_string()).collect();
            if near.is_empty() {
                bail!("there is no tool '{}': list the catalog to see all", show.name);
            }
            bail!("there is no tool '{}': similar are {}", show.name, near.join(", "));
        }
        several => {
            let ids: Vec<String> = several.iter().map(|tool| tool.id().to_string()).collect();
            bail!("'{}' stands for {}: name one of them", show.name, ids.join(" and "));
        }
    };
    if output.json {
        output.json(tool)?;
        return Ok(Outcome::Yes);
    }
    output.line(tool.id().to_string());
    let provider = snapshot.provider_name(tool.id()).unwrap_or_default();
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            output.line(format!("  {name:<12} {value}"));
        }
    };
    fact("called", provider);
    fact("title", tool.title().unwrap_or_default());
    fact("tokens", &catalog::tokens(tool).to_string());
    fact("risk", &format!("{:?}", tool.policy().risk).to_lowercase());
    fact("aliases", &tool.aliases().join(", "));
    fact("tags", &tool.tags().join(", "));
    fact("source", tool.policy().source.as_deref().unwrap_or_default());
    fact("hash", tool.content_hash());
    if !tool.description().is_empty() {
        output.line("");
        output.line(tool.description());
    }
    for example in tool.examples() {
        output.line(format!("  e.g. {example}"));
    }
    if let Some(parameters) = tool.parameters() {
        let schema: serde_json::Value = serde_json::from_str(parameters)?;
        output.line("");
        output.json(&schema)?;
    }
    Ok(Outcome::Yes)
}
