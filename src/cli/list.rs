//! `toolrack list`.

use serde::Serialize;
use toolrack::Risk;

use super::meaning::List;
use super::output::{Output, Table, clip};
use super::{Outcome, catalog};

#[derive(Serialize)]
struct Row {
    id: String,
    provider_name: String,
    tokens: usize,
    risk: Risk,
    description: String,
}

pub(crate) fn run(list: &List, output: &mut Output) -> anyhow::Result<Outcome> {
    let catalog = catalog::read(&list.sources, output)?;
    catalog::note_problems(&catalog, output);
    let snapshot = catalog.snapshot();
    let of = |namespace: &str| list.namespace.as_deref().is_none_or(|asked| asked == namespace);
    let rows: Vec<Row> = snapshot
        .tools()
        .filter(|tool| of(tool.namespace()))
        .map(|tool| Row {
            id: tool.id().to_string(),
            provider_name: snapshot.provider_name(tool.id()).unwrap_or_default().to_owned(),
            tokens: catalog::tokens(tool),
            risk: tool.policy().risk,
            description: tool.description().to_owned(),
        })
        .collect();
    if let Some(asked) = list.namespace.as_deref().filter(|_| rows.is_empty()) {
        catalog::note_namespace(&snapshot, asked, output);
    }
    let outcome = if rows.is_empty() { Outcome::No } else { Outcome::Yes };
    if output.json {
        output.json(&rows)?;
        return Ok(outcome);
    }
    let mut table = Table::new(&["tool", ">tokens", "risk", "description"]);
    for row in &rows {
        let risk = match row.risk {
            Risk::Read => "read",
            Risk::Write => "write",
            Risk::Destructive => "destructive",
        };
        table.row([
            row.id.clone(),
            row.tokens.to_string(),
            risk.to_owned(),
            clip(&row.description, 60),
        ]);
    }
    output.raw(&table.render_within_terminal());
    let tokens: usize = rows.iter().map(|row| row.tokens).sum();
    output.line(format!("{} tools, {tokens} tokens.", rows.len()));
    Ok(outcome)
}
