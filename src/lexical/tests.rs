use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// BM25F by its formula, scanning every tool for every term.
fn oracle(tools: &[Tool], weights: &FieldWeights, query: &QueryTerms, mask: &[bool]) -> Vec<f64> {
    let bags: Vec<HashMap<String, f64>> = tools
        .iter()
        .map(|tool| {
            let fields = field_terms(tool);
            let mut bag = HashMap::new();
            for (terms, weight) in [
                (fields.name, weights.name),
                (fields.parameters, weights.parameters),
                (fields.namespace, weights.namespace),
                (fields.description, weights.description),
                (fields.whole_name, 1),
            ] {
                for term in terms {
                    *bag.entry(term).or_insert(0.0) += f64::from(weight);
                }
            }
            bag
        })
        .collect();
    let length = |bag: &HashMap<String, f64>| bag.values().sum::<f64>();
    let live: Vec<&HashMap<String, f64>> =
        bags.iter().zip(mask).filter(|&(_, &on)| on).map(|(bag, _)| bag).collect();
    let count = live.len() as f64;
    let average = live.iter().map(|bag| length(bag)).sum::<f64>() / count;
    bags.iter()
        .zip(mask)
        .map(|(bag, &on)| {
            if !on {
                return 0.0;
            }
            // tantivy keeps a length in one byte, exact below 40.
            let stored = FieldNormReader::id_to_fieldnorm(FieldNormReader::fieldnorm_to_id(
                length(bag) as u32,
            ));
            let norm = 1.2 * (0.25 + 0.75 * f64::from(stored) / average);
            query
                .0
                .iter()
                .map(|(term, weight)| {
                    let n = live.iter().filter(|bag| bag.contains_key(term)).count() as f64;
                    let idf = (1.0 + (count - n + 0.5) / (n + 0.5)).ln();
                    let tf = bag.get(term).copied().unwrap_or(0.0);
                    f64::from(*weight) * idf * 2.2 * tf / (tf + norm)
                })
                .sum()
        })
        .collect()
}

fn tool(namespace: &str, name: &str, description: &str) -> Tool {
    Tool::builder(name).namespace(namespace).description(description).build().unwrap()
}

proptest! {
    #[test]
    fn agrees_with_the_formula_on_any_eligible_part(
        tools in prop::collection::vec(
            ("[a-d]", "[a-e]{1,3}(_[a-e]{1,3}){0,3}", "([a-e]{1,3} ){0,60}", any::<bool>()), 1..30),
        text in "([a-e]{1,3} ){0,12}",
    ) {
        let mask: Vec<bool> = tools.iter().map(|row| row.3).collect();
        let tools: Vec<Tool> = tools.iter().map(|row| tool(&row.0, &row.1, &row.2)).collect();
        let weights = FieldWeights::default();
        let index = LexicalIndex::build(tools.iter(), &weights).unwrap();
        let query = QueryTerms::of([(text.as_str(), 1.0), ("aa bb", 0.5)]);
        let scores = index.score(&query, &[], Some(&mask)).unwrap();
        for (row, expected) in oracle(&tools, &weights, &query, &mask).into_iter().enumerate() {
            let got = f64::from(scores.bm25[row]);
            let expected = if expected.is_nan() { 0.0 } else { expected };
            prop_assert!((got - expected).abs() <= 1e-4 * expected.max(1.0), "{row}: {got} {expected}");
            prop_assert!((0.0..=1.0001).contains(&scores.coverage[row]));
        }
    }
}

#[test]
fn hidden_tools_leave_no_trace_in_scores() {
    let all = [
        tool("a", "send_mail", "send a mail"),
        tool("a", "secret_mail", "mail mail mail, a very long secret description indeed"),
        tool("a", "list_files", "list the files of a folder"),
    ];
    let part = [all[0].clone(), all[2].clone()];
    let weights = FieldWeights::default();
    let query = QueryTerms::of([("send mail with files", 1.0)]);
    let whole = LexicalIndex::build(all.iter(), &weights).unwrap();
    let masked = whole.score(&query, &[], Some(&[true, false, true])).unwrap();
    let alone =
        LexicalIndex::build(part.iter(), &weights).unwrap().score(&query, &[], None).unwrap();
    assert_eq!([masked.bm25[0], masked.bm25[2]], alone.bm25[..]);
    assert_eq!([masked.coverage[0], masked.coverage[2]], alone.coverage[..]);
    assert_eq!([masked.name_coverage[0], masked.name_coverage[2]], alone.name_coverage[..]);
    assert_eq!([masked.score[0], masked.score[2]], alone.score[..]);
}

#[test]
fn empty_index_and_empty_query_score_nothing() {
    let none = LexicalIndex::build(std::iter::empty(), &FieldWeights::default()).unwrap();
    let query = QueryTerms::of([("mail", 1.0)]);
    assert!(none.score(&query, &[], None).unwrap().bm25.is_empty());
    let one = LexicalIndex::build([tool("a", "the", "")].iter(), &FieldWeights::default()).unwrap();
    assert_eq!(one.score(&query, &[], None).unwrap().bm25, [0.0]);
}
