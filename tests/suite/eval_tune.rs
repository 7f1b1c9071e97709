//! Fitting and reporting on different halves.

use toolrack::eval::{
    Dataset, EngineSettings, EvalOptions, System, TuneOptions, check, evaluate, halves, tune,
};
use toolrack::{ErrorKind, Fusion, StaticEmbedder};

use crate::eval_shared::{benchdata, registry61};

fn engine() -> EngineSettings {
    EngineSettings::with_embedder(StaticEmbedder::bundled())
}

#[test]
fn halves_share_nothing_and_keep_templates_together() {
    let queries: String = (0..60)
        .map(|n| {
            let template = n % 6;
            format!(r#"{{"id": "{n}", "query": "q", "tools": [], "template": "t{template}"}}"#)
                + "\n"
        })
        .collect();
    let set = Dataset::parse("demo", r#"[{"name": "a"}]"#, &queries).unwrap();
    let (fit, report) = halves(&set, 17);
    assert_eq!(fit.len() + report.len(), 60);
    let templates = |set: &Dataset| {
        let mut list: Vec<_> = set.queries().iter().map(|q| q.template.clone()).collect();
        list.sort();
        list.dedup();
        list
    };
    assert!(templates(&fit).iter().all(|template| !templates(&report).contains(template)));
    assert_eq!(fit.fingerprint(), report.fingerprint());
    assert_ne!(halves(&set, 17).0.queries().len(), 0);
}

#[test]
fn too_little_data_is_refused() {
    let set = Dataset::read(registry61()).unwrap();
    let error = tune(&set, &engine(), &TuneOptions::default(), &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert!(error.to_string().contains("fewer than 20: label more to tune"), "{error}");
    let keep = TuneOptions::default().keep(0.0);
    let error = tune(&set, &engine(), &keep, &mut |_, _| {}).unwrap_err();
    insta::assert_snapshot!(error, @"keep is 0: give a share above 0 and at most 1");
}

#[test]
fn a_spoilt_setting_is_mended() {
    let Some(folder) = benchdata("a_spoilt_setting_is_mended") else { return };
    let set = Dataset::read(folder.join("restbench-tmdb")).unwrap();
    // Only descriptions count, and a gate that lets nothing in.
    let mut spoilt = engine().fusion(Fusion::Agreement { lexical_weight: Some(0.0) });
    spoilt.weights.name = 0;
    spoilt.gate.read = Some(0.99);
    let tuned = tune(&set, &spoilt, &TuneOptions::default(), &mut |_, _| {}).unwrap();
    assert!(tuned.report.trials > 10);
    assert_eq!(tuned.report.n_fitted + tuned.report.n_reported, set.len());
    assert!(tuned.settings.gate.read.unwrap() < 0.9);
    assert!(tuned.report.kept > 0.8, "{:?}", tuned.report);
    assert_eq!(tuned.fitted.fingerprint, set.fingerprint());
}

#[test]
fn a_report_is_checked_against_a_recorded_one() {
    let set = Dataset::read(registry61()).unwrap();
    let sets = [set];
    let run = |system: &System| {
        evaluate(&sets, std::slice::from_ref(system), &EvalOptions::default(), &mut |_| {}).unwrap()
    };
    let good = run(&System::engine("engine", engine()));
    assert_eq!(check(&good, &good).unwrap(), []);
    // The same name, but it knows nothing.
    let nothing = vec![Vec::new(); 30];
    let bad = run(&System::ranked("engine", [("registry61".to_owned(), nothing)]));
    let drops = check(&bad, &good).unwrap();
    assert_eq!(drops.len(), 7);
    let text = drops.iter().find(|drop| drop.metric == "MRR").unwrap().to_string();
    assert!(text.starts_with("registry61, engine: MRR is 0.000, below the "), "{text}");
    let error = check(&run(&System::bm25()), &good).unwrap_err();
    insta::assert_snapshot!(error, @"system 'engine' is recorded but was not measured: measure what is recorded, or record anew with --json");
}
