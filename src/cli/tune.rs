//! `toolrack tune`.

use toolrack::eval::{Dataset, EngineSettings, Estimate, tune};

use super::Outcome;
use super::eval::write;
use super::meaning::Tune;
use super::output::{Bar, Output};

pub(crate) fn run(command: Tune, output: &mut Output) -> anyhow::Result<Outcome> {
    let set = Dataset::read(&command.dataset)?;
    let mut config = command.config;
    let base = EngineSettings::from_config(&config)?;
    let mut bar = Bar::new();
    let tuned = tune(&set, &base, &command.options, &mut |done, total| {
        bar.step("trying settings", done, total);
    })?;
    drop(bar);
    config.engine.fusion = tuned.settings.fusion;
    config.engine.fields = tuned.settings.weights;
    config.engine.gate = tuned.settings.gate.clone();
    config.fitted = Some(tuned.fitted.clone());
    let toml = config.to_toml();
    if let Some(path) = &command.output {
        write(path, &toml)?;
    }
    let report = &tuned.report;
    if output.json {
        output.json(&serde_json::json!({"report": report, "config": toml}))?;
        return Ok(Outcome::Yes);
    }
    output.line(format!(
        "{}: fitted to {} queries in {} trials, reported on {} others",
        report.dataset, report.n_fitted, report.trials, report.n_reported
    ));
    output.line(format!("  nDCG@10 before  {}", interval(&report.before)));
    output.line(format!("  nDCG@10 after   {}", interval(&report.after)));
    output.line(format!("  gain, paired    {}", interval(&report.gain)));
    output.line(format!("  gold admitted   {:.1} %", report.kept * 100.0));
    if let Some(refused) = report.refused {
        output.line(format!("  rest refused    {:.1} %", refused * 100.0));
    }
    if report.gain.low <= 0.0 {
        output.line("The gain may be chance: the defaults do as well.");
    }
    match &command.output {
        Some(path) => output.line(format!("Written to {}.", path.display())),
        None => {
            output.line("");
            output.raw(&toml);
        }
    }
    Ok(Outcome::Yes)
}

fn interval(estimate: &Estimate) -> String {
    format!("{:.3} [{:.3}, {:.3}]", estimate.mean, estimate.low, estimate.high)
}
