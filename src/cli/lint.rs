//! `toolrack lint`.

use toolrack::eval::{Dataset, Finding, LintReport, lint_with};

use super::meaning::Lint;
use super::output::{Bar, Output};
use super::{Outcome, catalog};

pub(crate) fn run(command: &Lint, output: &mut Output) -> anyhow::Result<Outcome> {
    let labelled = command.labelled.as_ref().map(Dataset::read).transpose()?;
    let catalog = match (&labelled, command.sources.is_empty()) {
        (Some(set), true) => set.catalog().clone(),
        _ => catalog::read(&command.sources, output)?,
    };
    catalog::note_problems(&catalog, output);
    let mut bar = Bar::new();
    let engine = command
        .config
        .builder(catalog)?
        .on_progress(move |p| bar.step("embedding tools", p.done, p.total))
        .build()?;
    let mut bar = Bar::new();
    let report = lint_with(&engine, labelled.as_ref(), &command.options, &mut |done, total| {
        bar.step("comparing tools", done, total);
    })?;
    drop(bar);
    if command.sarif {
        output.json(&report.to_sarif())?;
    } else if output.json {
        output.json(&report)?;
    } else {
        text(&report, command.show, output);
    }
    let failed = command.fail_on.zip(report.worst()).is_some_and(|(least, worst)| worst >= least);
    Ok(if failed { Outcome::No } else { Outcome::Yes })
}

fn text(report: &LintReport, show: usize, output: &mut Output) {
    for (rule, count) in report.counts() {
        output.line(format!("{} {rule}: {} ({count})", rule.level(), rule.about()));
        let findings: Vec<&Finding> = report.findings.iter().filter(|f| f.rule == rule).collect();
        for finding in findings.iter().take(show) {
            let place = match (&finding.file, finding.line) {
                (Some(file), Some(line)) => format!("{file}:{line}: "),
                (Some(file), None) => format!("{file}: "),
                (None, _) => String::new(),
            };
            output.line(format!("  {place}{}: {}", finding.tool, finding.message));
        }
        if findings.len() > show {
            output.line(format!("  and {} more", findings.len() - show));
        }
        output.line(format!("  To mend it, {}.", rule.fix()));
    }
    output.line(format!("{} tools, {} findings.", report.n_tools, report.findings.len()));
}
