//! `toolrack search`.

use serde::Serialize;
use toolrack::{Candidate, Explanation, SelectRequest, Selection};

use super::meaning::Search;
use super::output::{Bar, Output, Table, clip};
use super::{Outcome, catalog};

#[derive(Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    selection: &'a Selection,
    explanations: Vec<Explanation>,
}

pub(crate) fn run(search: Search, output: &mut Output) -> anyhow::Result<Outcome> {
    let catalog = catalog::read(&search.sources, output)?;
    catalog::note_problems(&catalog, output);
    let mut bar = Bar::new();
    let builder = search.config.builder(catalog)?;
    let engine =
        builder.on_progress(move |p| bar.step("embedding tools", p.done, p.total)).build()?;
    if let Some(failure) = engine.report().failure {
        output.note(&format!("words only, because {failure}"));
    }
    let mut request =
        SelectRequest::new(search.request).k(search.k).context(search.config.policy.clone());
    if let Some(namespace) = search.namespace {
        catalog::note_namespace(&engine.snapshot(), &namespace, output);
        request = request.namespace(namespace);
    }
    let selection = engine.select(&request)?;
    let fits = selection.best().is_some();
    let rejected = selection.rejected.iter().map(|(candidate, _)| candidate);
    let shown: Vec<&Candidate> = match fits {
        true => selection.candidates.iter().collect(),
        false => rejected.take(5).collect(),
    };
    let explanations = match search.explain {
        true => shown.iter().map(|c| engine.explain(&request, &c.id)).collect::<Result<_, _>>()?,
        false => Vec::new(),
    };
    if output.json {
        output.json(&Found { selection: &selection, explanations })?;
        return Ok(if fits { Outcome::Yes } else { Outcome::No });
    }
    if !fits {
        let nearest =
            if shown.is_empty() { "" } else { " The nearest, which are not near enough:" };
        output.line(format!("Nothing fits.{nearest}"));
    }
    if search.explain {
        for explanation in explanations {
            output.line(explanation.to_string());
        }
        return Ok(if fits { Outcome::Yes } else { Outcome::No });
    }
    let snapshot = engine.snapshot();
    let mut table =
        Table::new(&[">#", "tool", ">score", ">cosine", ">words", ">tokens", "description"]);
    for (n, candidate) in shown.iter().enumerate() {
        let tool = snapshot.get(&candidate.id);
        let named = if candidate.is_named() { " (named)" } else { "" };
        table.row([
            (n + 1).to_string(),
            format!("{}{named}", candidate.id),
            format!("{:.3}", candidate.score.get()),
            candidate.cosine.map_or_else(|| "-".into(), |cosine| format!("{:.3}", cosine.get())),
            format!("{:.3}", candidate.lexical.get()),
            tool.map_or_else(String::new, |tool| catalog::tokens(tool).to_string()),
            tool.map_or_else(String::new, |tool| clip(tool.description(), 48)),
        ]);
    }
    if !shown.is_empty() {
        output.raw(&table.render_within_terminal());
    }
    if fits {
        output.line(format!(
            "{} of {} fitting tools, {} in the catalog.",
            shown.len(),
            selection.total,
            snapshot.len()
        ));
    }
    if matches!(selection.outcome, toolrack::Outcome::Ambiguous(_)) {
        output.line("The first ones are so alike that somebody should choose.");
    }
    Ok(if fits { Outcome::Yes } else { Outcome::No })
}
