//! `toolrack replay`.

use toolrack::eval::{Dataset, EngineSettings, ReplayReport, replay};

use super::meaning::{Replay, Runs};
use super::output::{Bar, Output, Table};
use super::{Outcome, catalog};

pub(crate) fn run(replay_command: &Replay, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut sets = Vec::new();
    for runs in &replay_command.runs {
        sets.push(match runs {
            Runs::Dataset(folder) => Dataset::read(folder)?,
            Runs::Trace(file) => {
                Dataset::read_trace(file, catalog::read(&replay_command.sources, output)?)?
            }
        });
    }
    let engine = EngineSettings::from_config(&replay_command.config)?;
    let mut reports = Vec::new();
    for set in &sets {
        let fitted = replay_command.config.fitted.as_ref();
        if fitted.is_some_and(|fitted| fitted.fingerprint == set.fingerprint()) {
            output.note(&format!(
                "the settings were fitted on {}: expect less on runs that they have not seen",
                set.name()
            ));
        }
        let mut bar = Bar::new();
        reports.push(replay(
            set,
            &engine,
            &replay_command.settings,
            &replay_command.options,
            &mut |done, total| bar.step(set.name(), done, total),
        )?);
    }
    if output.json {
        output.json(&reports)?;
        return Ok(Outcome::Yes);
    }
    for report in &reports {
        text(report, output);
    }
    Ok(Outcome::Yes)
}

fn text(report: &ReplayReport, output: &mut Output) {
    output.line(format!(
        "{}: {} runs, {} turns, {} steps, {} tools",
        report.dataset, report.n_runs, report.n_turns, report.n_steps, report.n_tools
    ));
    let mut table = Table::new(&[
        "setting",
        ">visible",
        ">rescued",
        ">lost",
        ">changes/step",
        ">thrash",
        ">tools",
        ">tokens",
        ">of all",
        ">cached",
    ]);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    for figures in &report.settings {
        table.row([
            figures.name.clone(),
            percent(figures.visible),
            percent(figures.rescued),
            percent(figures.lost),
            format!("{:.2}", figures.changes),
            percent(figures.thrash),
            format!("{:.1}", figures.tools),
            format!("{:.0}", figures.tokens),
            percent(figures.tokens_share),
            percent(figures.cached),
        ]);
    }
    output.raw(&table.render());
    output.line(report.recommendation.text());
    output.line("");
}
