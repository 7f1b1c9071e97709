//! `toolrack tune`.

use anyhow::bail;
use toolrack::eval::{Dataset, EngineSettings, Estimate, tune};
use toolrack::{Config, Fitted};

use super::Outcome;
use super::eval::write;
use super::meaning::Tune;
use super::output::{Bar, Output};

pub(crate) fn run(command: Tune, output: &mut Output) -> anyhow::Result<Outcome> {
    let set = Dataset::read(&command.dataset)?;
    let mut config = command.config;
    let fitted = Fitted {
        dataset: set.name().to_owned(),
        fingerprint: set.fingerprint().to_owned(),
        seed: command.options.seed,
    };
    refuse_other_halves(&config, &fitted)?;
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
    if let Some(verdict) = verdict(&report.gain) {
        output.line(verdict);
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

/// Fitting goes on from settings that were fitted on another half, or on another dataset: figures of
/// what one fit has not seen would be of what the other has.
pub(crate) fn refuse_other_halves(config: &Config, fitted: &Fitted) -> anyhow::Result<()> {
    let Some(before) = config.fitted.as_ref().filter(|before| *before != fitted) else {
        return Ok(());
    };
    bail!(
        "the settings were fitted on {} with seed {} before: fit on that again, or begin with a \
         configuration without [fitted]",
        before.dataset,
        before.seed
    )
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
