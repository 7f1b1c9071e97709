//! `toolrack calibrate`.

use std::fmt::Write as _;

use toolrack::eval::{Dataset, halves};
use toolrack::{Calibration, Engine, Fit, LabelledQuery};

use super::Outcome;
use super::fitting::Fitting;
use super::meaning::Calibrate;
use super::output::{Bar, Output};

pub(crate) fn run(command: Calibrate, output: &mut Output) -> anyhow::Result<Outcome> {
    let seed = command.fit.seed;
    let mut fitting = Fitting::begin(command.fit)?;
    let mut bar = Bar::new();
    let set = &fitting.set;
    let engine = fitting
        .config
        .builder(set.catalog().clone())?
        .on_progress(move |p| bar.step("embedding tools", p.done, p.total))
        .build()?;
    let (fit, report) = halves(set, seed);
    let mut calibration = Calibration::default().keep(command.keep).admit(command.admit);
    calibration.add(&engine, &labelled(&fit, &engine))?;
    let calibrated = calibration.fit(set.name())?;
    let mut unseen = Calibration::default();
    unseen.add(&engine, &labelled(&report, &engine))?;
    let classes = [
        ("read", calibrated.read),
        ("write", calibrated.write),
        ("destructive", calibrated.destructive),
    ]
    .map(|(class, fit)| (class, unseen.measure(fit.threshold)));

    let gate = &mut fitting.config.engine.gate;
    gate.read = Some(calibrated.profile.read);
    gate.write = Some(calibrated.profile.write);
    gate.destructive = Some(calibrated.profile.destructive);
    let toml = fitting.keep()?;
    let (answerable, unanswerable) = unseen.counts();
    if output.json {
        let classes: serde_json::Map<String, serde_json::Value> = classes
            .iter()
            .map(|(class, fit)| ((*class).to_owned(), serde_json::json!(fit)))
            .collect();
        output.json(&serde_json::json!({
            "dataset": fitting.set.name(),
            "fitted": {
                "answerable": calibrated.answerable,
                "unanswerable": calibrated.unanswerable,
            },
            "reported": {"answerable": answerable, "unanswerable": unanswerable},
            "classes": classes,
            "config": toml,
        }))?;
        return Ok(Outcome::Yes);
    }
    output.line(format!(
        "{}: fitted to {} requests that a tool answers and {} that none does,",
        fitting.set.name(),
        calibrated.answerable,
        calibrated.unanswerable
    ));
    output.line(format!("reported on {answerable} and {unanswerable} others"));
    output.raw(&table(&classes));
    fitting.tell(&toml, output);
    Ok(Outcome::Yes)
}

fn table(classes: &[(&str, Fit)]) -> String {
    let mut text = String::from("  class        cosine  answered admitted  others admitted\n");
    for (class, fit) in classes {
        let (kept, admitted) = (fit.kept * 100.0, fit.admitted * 100.0);
        let cosine = fit.threshold;
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {class:<11} {cosine:>7.3} {kept:>16.1} % {admitted:>14.1} %");
    }
    text
}

/// The queries of `set`, labelled with the ids of all tools that count.
fn labelled(set: &Dataset, engine: &Engine) -> Vec<LabelledQuery> {
    let ids: Vec<String> = engine.snapshot().tools().map(|tool| tool.id().to_string()).collect();
    let queries = set.queries().iter().map(|query| {
        let rows = query.slots.iter().flat_map(|slot| [&[slot.tool], &*slot.alternatives].concat());
        LabelledQuery::new(query.text.as_str(), rows.map(|row| ids[row].as_str()))
    });
    queries.collect()
}
