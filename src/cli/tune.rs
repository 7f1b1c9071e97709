//! `toolrack tune`.

use toolrack::eval::{EngineSettings, Estimate, tune};

use super::Outcome;
use super::fitting::Fitting;
use super::meaning::Tune;
use super::output::{Bar, Output};

pub(crate) fn run(command: Tune, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut fitting = Fitting::begin(command.fit)?;
    let base = EngineSettings::from_config(&fitting.config)?;
    let mut bar = Bar::new();
    let tuned = tune(&fitting.set, &base, &command.options, &mut |done, total| {
        bar.step("trying settings", done, total);
    })?;
    drop(bar);
    let engine = &mut fitting.config.engine;
    engine.fusion = tuned.settings.fusion;
    engine.fields = tuned.settings.weights;
    engine.gate = tuned.settings.gate;
    let toml = fitting.keep()?;
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
    if let Some(verdict) = verdict(&report.gain) {
        output.line(verdict);
    }
    fitting.tell(&toml, output);
    Ok(Outcome::Yes)
}

/// What to make of a gain that is not surely one.
fn verdict(gain: &Estimate) -> Option<&'static str> {
    if gain.low > 0.0 {
        None
    } else if gain.is_significant() {
        Some("It got worse on what it has not seen: keep the settings that you had.")
    } else {
        Some("The gain may be chance: the settings that you had do as well.")
    }
}

fn interval(estimate: &Estimate) -> String {
    format!("{:.3} [{:.3}, {:.3}]", estimate.mean, estimate.low, estimate.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_not_called_a_gain_by_chance() {
        let gain = |low: f64, high: f64| {
            let mut gain = Estimate::default();
            (gain.low, gain.high) = (low, high);
            verdict(&gain)
        };
        assert_eq!(gain(0.01, 0.03), None);
        assert!(gain(-0.01, 0.03).unwrap().starts_with("The gain may be chance"));
        assert!(gain(-0.03, -0.01).unwrap().starts_with("It got worse"));
    }
}
