//! Measures against cases worked out by hand and against trec_eval.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use toolrack::eval::{
    Bootstrap, Dataset, DatasetOptions, EvalOptions, Metric, System, evaluate, read_run, slot_ranks,
};

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6, "{a} is not {b}");
}

#[test]
fn cases_worked_out_by_hand() {
    use Metric::{Complete, Mrr, Ndcg, Recall};
    // Two gold tools at ranks 2 and 5: DCG = 1/log2 3 + 1/log2 6, ideal = 1 + 1/log2 3.
    let ranks = [Some(5), Some(2)];
    close(Ndcg(10).of(&ranks), (0.630_929_754 + 0.386_852_807) / 1.630_929_754);
    close(Recall(1).of(&ranks), 0.0);
    close(Recall(2).of(&ranks), 0.5);
    close(Recall(5).of(&ranks), 1.0);
    close(Complete(4).of(&ranks), 0.0);
    close(Complete(5).of(&ranks), 1.0);
    close(Mrr.of(&ranks), 0.5);
    // Rank 11 is outside nDCG@10, and an unranked tool outside everything.
    close(Ndcg(10).of(&[Some(11)]), 0.0);
    close(Mrr.of(&[Some(11), None]), 1.0 / 11.0);
    close(Mrr.of(&[None]), 0.0);
    close(Recall(100).of(&[Some(1), None]), 0.5);
    // Twelve gold tools of which the first ten fill the first ten places: the ideal is cut at ten.
    let many: Vec<_> = (1..=12).map(Some).collect();
    close(Ndcg(10).of(&many), 1.0);
    close(Recall(10).of(&many), 10.0 / 12.0);
    close(Ndcg(10).of(&[]), 0.0);
}

#[test]
fn a_slot_has_the_best_rank_of_its_alternatives() {
    let set = Dataset::parse(
        "demo",
        r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]"#,
        r#"{"id": "1", "query": "q", "tools": ["a", "b"], "alternatives": {"a": ["d", "c"]}}"#,
    )
    .unwrap();
    let query = &set.queries()[0];
    assert_eq!(slot_ranks(query, &[2, 1, 0]), [Some(1), Some(2)]);
    assert_eq!(slot_ranks(query, &[3, 0]), [Some(1), None]);
    assert_eq!(slot_ranks(query, &[]), [None, None]);
}

#[test]
fn trec_eval_agrees() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trec"));
    let options = DatasetOptions::default().qrels(folder.join("qrels.txt"));
    let set = Dataset::read_with(&folder, &options).unwrap();
    let run = read_run(folder.join("run.txt"), &set).unwrap();
    let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: BTreeMap<String, BTreeMap<String, f64>> =
        serde_json::from_str(&expected).unwrap();
    assert_eq!((set.len(), expected.len()), (60, 60));
    for (query, ranked) in set.queries().iter().zip(&run) {
        let ranks = slot_ranks(query, ranked);
        for (metric, name) in [
            (Metric::Recall(1), "recall_1"),
            (Metric::Recall(5), "recall_5"),
            (Metric::Recall(10), "recall_10"),
            (Metric::Ndcg(10), "ndcg_cut_10"),
            (Metric::Mrr, "recip_rank"),
        ] {
            close(metric.of(&ranks), expected[&query.id][name]);
        }
        let all = f64::from(expected[&query.id]["recall_10"] == 1.0);
        close(Metric::Complete(10).of(&ranks), all);
    }
    // The same through the whole evaluation.
    let means = |name: &str| expected.values().map(|query| query[name]).sum::<f64>() / 60.0;
    let (expected_ndcg, expected_mrr) = (means("ndcg_cut_10"), means("recip_rank"));
    let system = System::ranked("random", [(set.name().to_owned(), run)]);
    let report = evaluate(&[set], &[system], &EvalOptions::default(), &mut |_| {}).unwrap();
    let figures = &report.datasets[0].systems[0].figures;
    close(figures["nDCG@10"].mean, expected_ndcg);
    close(figures["MRR"].mean, expected_mrr);
    assert!(figures["MRR"].low < expected_mrr && expected_mrr < figures["MRR"].high);
}

#[test]
fn the_same_seed_gives_the_same_intervals() {
    let values: Vec<f64> = (0..50).map(|n| f64::from(n % 7) / 7.0).collect();
    let bootstrap = Bootstrap::default();
    assert_eq!(bootstrap.mean(&values), bootstrap.mean(&values));
    assert_ne!(bootstrap.mean(&values), bootstrap.seed(18).mean(&values));
}

proptest! {
    #[test]
    fn measures_stay_in_their_range_and_rise_with_k(
        ranks in prop::collection::vec(prop::option::of(1_usize..200), 0..30),
        k in 1_usize..60,
    ) {
        for metric in [Metric::Recall(k), Metric::Complete(k), Metric::Ndcg(k), Metric::Mrr] {
            prop_assert!((0.0..=1.0).contains(&metric.of(&ranks)));
            prop_assert_eq!(metric.to_string().parse::<Metric>().unwrap(), metric);
        }
        prop_assert!(Metric::Recall(k).of(&ranks) <= Metric::Recall(k + 1).of(&ranks));
        prop_assert!(Metric::Complete(k).of(&ranks) <= Metric::Recall(k).of(&ranks));
    }
}
