//! How long a request and a tool text take with an ONNX model, on one and on two threads.
//!
//! ```text
//! models/fetch-onnxruntime
//! cargo run --release --example onnx_speed -- models/minilm-tuned model_int8.onnx
//! ```

use std::env;
use std::time::{Duration, Instant};

use anyhow::Result;
use toolrack::{Embedder, OnnxEmbedder, OnnxOptions};

const REQUEST: &str = "reconcile the invoices of last month with the bank statement and flag every \
                       mismatch now";
const TOOL: &str = "create issue: Create a new issue in a GitHub repository with a title, a body, \
                    labels and assignees, and give back its number. owner repo title body labels";

fn main() -> Result<()> {
    let folder = env::args().nth(1).unwrap_or_else(|| "models/minilm-tuned".into());
    let file = env::args().nth(2);
    // 50 to 150 characters: sorted, as the engine does it.
    let mut tools: Vec<String> =
        (0..256).map(|i| format!("{i} {}", &TOOL[..50 + i * 37 % 100])).collect();
    tools.sort_by_key(String::len);
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();

    for threads in [1, 2] {
        for batch in [1, 32] {
            let mut options = OnnxOptions::default().threads(threads).batch_size(batch);
            if let Some(file) = &file {
                options = options.file(file);
            }
            let started = Instant::now();
            let model = OnnxEmbedder::open_with(&folder, options)?;
            let opened = started.elapsed();

            let mut requests = Vec::new();
            for _ in 0..300 {
                let started = Instant::now();
                model.embed_queries(&[REQUEST])?;
                requests.push(started.elapsed());
            }
            requests.sort();
            let started = Instant::now();
            model.embed_documents(&tools)?;
            let tool = started.elapsed() / tools.len() as u32;
            println!(
                "{}: {threads} threads, batches of {batch}: open {:.0} ms, request {:.2} ms \
                 (95 % below {:.2}), tool text {:.2} ms",
                model.fingerprint(),
                ms(opened),
                ms(requests[150]),
                ms(requests[285]),
                ms(tool),
            );
        }
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
