//! The speed that the project promises, as ratios within one run, each result asserted first.
//!
//! `cargo bench --bench bars` prints a table and fails when a bar is missed. The bars that compare
//! with ONNX Runtime need its library (`models/fetch-onnxruntime`); without it they are reported as
//! not measured, and fail when TOOLRACK_REQUIRE_ONNX is set.

mod common;

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use ndarray::{Array1, Array2};
use toolrack::trace::{Event, TraceBuffer, TraceSink, TraceWriter};
use toolrack::{
    Embedder as _, Engine, SelectRequest, SessionOptions, StaticEmbedder, TurnInput, openai,
};

/// The folder of the tuned MiniLM.
#[cfg(feature = "onnx")]
const MINILM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/minilm-tuned");

/// Median of the times of `runs` calls, in microseconds, after a tenth of them to warm up.
fn median_us(runs: usize, mut call: impl FnMut()) -> f64 {
    (0..runs.div_ceil(10)).for_each(|_| call());
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let started = Instant::now();
            call();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The medians of several calls that take turns, so that a busy machine is busy for all of them.
fn medians_us<const N: usize>(runs: usize, mut calls: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(runs));
    for run in 0..runs + runs.div_ceil(10) {
        for (call, times) in calls.iter_mut().zip(&mut times) {
            let started = Instant::now();
            call();
            if run >= runs.div_ceil(10) {
                times.push(started.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

struct Bar {
    what: &'static str,
    measured: f64,
    unit: &'static str,
    asked: Option<(f64, bool)>,
}

impl Bar {
    fn holds(&self) -> bool {
        self.asked.is_none_or(
            |(bar, at_least)| {
                if at_least { self.measured >= bar } else { self.measured <= bar }
            },
        )
    }
}

fn main() -> Result<()> {
    // `cargo test --benches` only asks whether it runs.
    let quick = !std::env::args().any(|arg| arg == "--bench");
    let scale = if quick { 20 } else { 1 };
    let mut bars: Vec<Bar> = Vec::new();
    let mut note = |what, measured, unit, asked| bars.push(Bar { what, measured, unit, asked });

    let engine = Engine::builder(common::catalog(1_000)?).build()?;
    let ranked = engine.rank(common::REQUEST, 10)?;
    common::assert_found(ranked.iter().map(|c| c.id.name()), "list_invoices")?;
    let select = median_us(2_000 / scale, || {
        black_box(engine.rank(black_box(common::REQUEST), 10).is_ok());
    });
    note("select at 1,000 tools, bundled model", select, "us", None);
    let request = SelectRequest::new(common::REQUEST);
    let gated = median_us(2_000 / scale, || {
        black_box(engine.select(black_box(&request)).is_ok());
    });
    note("the same with policy and gate", gated, "us", None);

    let model = StaticEmbedder::bundled();
    ensure!(model.embed_queries(&[common::REQUEST])?[0].len() == 256);
    let embed = median_us(5_000 / scale, || {
        black_box(model.embed_queries(black_box(&[common::REQUEST])).is_ok());
    });
    note("embed 15 words, bundled model", embed, "us", None);

    let mut session = engine.session(SessionOptions::default().core(["agent/read_state"]))?;
    session.turn(common::REQUEST)?;
    let call = toolrack::Call::new("billing__list_invoices", serde_json::json!({}));
    let toolrack::Verdict::Run(tool) = session.authorize(&call)? else {
        bail!("billing__list_invoices is not visible after the turn")
    };
    let step = median_us(5_000 / scale, || {
        session.record_use(&tool);
        let turn = session.step();
        black_box(openai::tools(&turn).json().len());
    });
    note("session step: observe, evict, render", step, "us", None);
    note("step against select", step / select, "ratio", Some((1.0 / 20.0, false)));

    policy_gate_trace(scale, &mut note)?;
    dense_scan(scale, &mut note)?;
    onnx(scale, select, embed, &mut note)?;

    println!("{:<58} {:>12}  bar", "", "measured");
    let mut missed = 0;
    for bar in &bars {
        let asked = match bar.asked {
            Some((asked, true)) => format!("at least {asked:.2}"),
            Some((asked, false)) => format!("at most {asked:.2}"),
            None => String::new(),
        };
        let verdict = if bar.holds() { "" } else { "  MISSED" };
        missed += usize::from(!bar.holds());
        println!("{:<58} {:>9.3} {:<5} {asked}{verdict}", bar.what, bar.measured, bar.unit);
    }
    // A debug build or a handful of runs says nothing of speed.
    ensure!(missed == 0 || quick || cfg!(debug_assertions), "{missed} bars missed");
    Ok(())
}

/// Takes what is recorded and lets go of it.
struct Discard;

impl TraceSink for Discard {
    fn write(&mut self, event: Event) -> std::io::Result<()> {
        black_box(event);
        Ok(())
    }
}

/// Ranking alone against ranking for a caller whose rights are narrowed in every way, with the gate
/// and with a trace, by turns.
///
/// The bars are on the select path, where a sink takes events and may write them down elsewhere; what
/// writing them to a file on the spot costs is a figure of its own.
fn policy_gate_trace(
    scale: usize,
    note: &mut impl FnMut(&'static str, f64, &'static str, Option<(f64, bool)>),
) -> Result<()> {
    let bare = Engine::builder(common::catalog(1_000)?).build()?;
    let guarded = Engine::builder(common::guarded(1_000)?).build()?;
    let context = common::context(&guarded.snapshot());
    let request = SelectRequest::new(common::REQUEST).k(10).context(context.clone());
    let selection = guarded.select(&request)?;
    ensure!(selection.eligible == 900, "{} tools are eligible, not 900", selection.eligible);
    common::assert_found(selection.candidates.iter().map(|c| c.id.name()), "list_invoices")?;
    let options = SessionOptions::default().limit(40).retrieve(10).context(context);
    let (mut untraced, mut session, mut written) = (
        guarded.session(options.clone())?,
        guarded.session(options.clone())?,
        guarded.session(options)?,
    );
    let events = TraceBuffer::new();
    session.trace_to(events.clone());
    let turn = || TurnInput::from(common::REQUEST).recent(Vec::new());
    session.turn(turn())?;
    let stages: Vec<&str> = events.events().iter().map(|event| event.stage.name()).collect();
    ensure!(stages.contains(&"filter") && stages.contains(&"gate"), "the trace has {stages:?}");
    session.trace_to(Discard);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.jsonl");
    written.trace_to(TraceWriter::create(&path)?);
    let [ranked, selected, plain, traced, filed] = medians_us(
        2_000 / scale,
        [
            &mut || {
                black_box(bare.rank(black_box(common::REQUEST), 10).is_ok());
            },
            &mut || {
                black_box(guarded.select(black_box(&request)).is_ok());
            },
            &mut || {
                black_box(untraced.turn(black_box(turn())).is_ok());
            },
            &mut || {
                black_box(session.turn(black_box(turn())).is_ok());
            },
            &mut || {
                black_box(written.turn(black_box(turn())).is_ok());
            },
        ],
    );
    ensure!(written.trace_failures() == 0 && std::fs::metadata(&path)?.len() > 0);
    note("bare select at 1,000 tools", ranked, "us", None);
    note("select with policy and gate", selected, "us", None);
    note("turn with policy, gate and working set", plain, "us", None);
    note("the same with a trace", traced, "us", None);
    note("the same with the trace written to a file", filed, "us", None);
    let guard = selected + (traced - plain).max(0.0);
    note("policy + gate + trace against bare select", guard / ranked, "ratio", Some((1.3, false)));
    note("traced turn against bare select", traced / ranked, "ratio", Some((1.3, false)));
    Ok(())
}

/// One matrix-vector product over 100,000 x 256 against reading the same bytes once.
fn dense_scan(
    scale: usize,
    note: &mut impl FnMut(&'static str, f64, &'static str, Option<(f64, bool)>),
) -> Result<()> {
    let (rows, dimensions) = (100_000 / scale, 256);
    let matrix = Array2::from_shape_fn((rows, dimensions), |(row, column)| {
        ((row * 31 + column * 17) % 97) as f32 / 97.0 - 0.5
    });
    let query = Array1::from_shape_fn(dimensions, |column| ((column * 7) % 11) as f32 / 11.0);
    let naive: f32 = matrix.row(rows - 1).iter().zip(&query).map(|(a, b)| a * b).sum();
    ensure!((matrix.dot(&query)[rows - 1] - naive).abs() < 1e-3, "the product is wrong");
    let scan = median_us(40, || {
        black_box(matrix.dot(black_box(&query)));
    });
    let cells = matrix.as_slice().unwrap_or_default();
    let read = median_us(40, || {
        // Eight sums side by side, so that the adder's latency does not bound the reading.
        let mut sums = [0_u32; 16];
        for chunk in black_box(cells).chunks_exact(16) {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum = sum.wrapping_add(value.to_bits());
            }
        }
        black_box(sums);
    });
    let gigabytes = (rows * dimensions * 4) as f64 / 1e9;
    note("dense scan of 100,000 x 256", scan, "us", None);
    note("read bandwidth, one thread", gigabytes / (read / 1e6), "GB/s", None);
    note("dense scan against read bandwidth", read / scan, "ratio", Some((0.5, true)));
    Ok(())
}

#[cfg(feature = "onnx")]
fn onnx(
    scale: usize,
    select: f64,
    embed: f64,
    note: &mut impl FnMut(&'static str, f64, &'static str, Option<(f64, bool)>),
) -> Result<()> {
    let model = match toolrack::OnnxEmbedder::open(MINILM) {
        Ok(model) => model,
        Err(error) if std::env::var_os("TOOLRACK_REQUIRE_ONNX").is_some() => {
            return Err(error.into());
        }
        Err(error) => {
            println!("not measured with ONNX Runtime: {error}");
            return Ok(());
        }
    };
    ensure!(model.embed_queries(&[common::REQUEST])?[0].len() == 384);
    let slow = median_us(200 / scale.min(4), || {
        black_box(model.embed_queries(black_box(&[common::REQUEST])).is_ok());
    });
    note("embed 15 words, tuned int8 MiniLM", slow, "us", None);
    note("bundled against MiniLM, embedding", slow / embed, "times", Some((50.0, true)));
    let engine = Engine::builder(common::catalog(1_000)?).embedder(model).build()?;
    let ranked = engine.rank(common::REQUEST, 10)?;
    common::assert_found(ranked.iter().map(|c| c.id.name()), "list_invoices")?;
    let through = median_us(200 / scale.min(4), || {
        black_box(engine.rank(black_box(common::REQUEST), 10).is_ok());
    });
    note("select at 1,000 tools, tuned int8 MiniLM", through, "us", None);
    note("bundled against MiniLM, select", through / select, "times", Some((15.0, true)));
    Ok(())
}

#[cfg(not(feature = "onnx"))]
fn onnx(
    _: usize,
    _: f64,
    _: f64,
    _: &mut impl FnMut(&'static str, f64, &'static str, Option<(f64, bool)>),
) -> Result<()> {
    println!("not measured with ONNX Runtime: the feature 'onnx' is off");
    Ok(())
}
