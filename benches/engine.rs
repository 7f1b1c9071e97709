//! Where the time goes: every stage by itself, each result asserted before it is timed.
//!
//! `cargo bench --bench engine`. Compare figures of one run only; the bars are in `bars.rs`.

#![allow(clippy::expect_used, reason = "a bench that cannot be set up has nothing to time")]
#![allow(missing_docs, reason = "criterion's macros make public items")]

mod common;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ndarray::{Array1, Array2};
use toolrack::{Embedder as _, Engine, Fusion, SessionOptions, StaticEmbedder, openai};

fn embedding(criterion: &mut Criterion) {
    let model = StaticEmbedder::bundled();
    let vector = &model.embed_queries(&[common::REQUEST]).expect("the bundled model answers")[0];
    let length: f32 = vector.iter().map(|v| v * v).sum();
    assert!((length - 1.0).abs() < 1e-4, "a vector of length 1");
    criterion.bench_function("embed a request of 15 words", |bencher| {
        bencher.iter(|| model.embed_queries(black_box(&[common::REQUEST])));
    });
}

fn dense_scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dense scan, 256 dimensions");
    for rows in [100, 1_000, 10_000, 100_000] {
        let matrix = Array2::from_shape_fn((rows, 256), |(row, column)| {
            ((row * 31 + column * 17) % 97) as f32 / 97.0 - 0.5
        });
        let query = Array1::from_shape_fn(256, |column| ((column * 7) % 11) as f32 / 11.0);
        let naive: f32 = matrix.row(rows - 1).iter().zip(&query).map(|(a, b)| a * b).sum();
        assert!((matrix.dot(&query)[rows - 1] - naive).abs() < 1e-3, "the product is right");
        group.bench_with_input(BenchmarkId::from_parameter(rows), &rows, |bencher, _| {
            bencher.iter(|| black_box(matrix.dot(black_box(&query))));
        });
    }
    group.finish();
}

fn select(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select");
    for tools in [100, 1_000, 10_000] {
        for (name, fusion) in [("lexical", Fusion::LexicalOnly), ("hybrid", Fusion::default())] {
            let catalog = common::catalog(tools).expect("the example's tools are readable");
            let engine = Engine::builder(catalog).fusion(fusion).build().expect("it builds");
            let ranked = engine.rank(common::REQUEST, 10).expect("it ranks");
            let names = ranked.iter().map(|candidate| candidate.id.name());
            common::assert_found(names, "list_invoices").expect("a right answer");
            group.bench_with_input(BenchmarkId::new(name, tools), &tools, |bencher, _| {
                bencher.iter(|| engine.rank(black_box(common::REQUEST), 10));
            });
        }
    }
    group.finish();
}

fn working_set(criterion: &mut Criterion) {
    let catalog = common::catalog(1_000).expect("the example's tools are readable");
    let engine = Engine::builder(catalog).build().expect("it builds");
    let mut run = engine.session(SessionOptions::default()).expect("the options fit");
    let turn = run.turn(common::REQUEST).expect("it ranks");
    assert!(turn.visible.contains("billing__list_invoices"), "the turn shows what it should");
    criterion.bench_function("session step with rendering, 1,000 tools", |bencher| {
        bencher.iter(|| openai::tools(run.step()).json().len());
    });
}

fn build(criterion: &mut Criterion) {
    let catalog = common::catalog(1_000).expect("the example's tools are readable");
    let report = Engine::builder(catalog.clone()).build().expect("it builds").report();
    assert_eq!((report.embedded, report.missing), (1_000, 0), "every tool has a vector");
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    group.bench_function("index of 1,000 tools", |bencher| {
        bencher.iter(|| Engine::builder(catalog.clone()).build());
    });
    group.finish();
}

criterion_group!(benches, embedding, dense_scan, select, working_set, build);
criterion_main!(benches);
