//! Recall and payload on a 61-tool registry with 30 labelled queries, by four rankings.
//!
//! `cargo run --release --example registry61 [folder of an ONNX model]`

use std::path::Path;

use anyhow::Context as _;
use toolrack::{Catalog, Engine, Fusion, Jaccard, LabelledQuery, Selector};

const KS: [usize; 7] = [3, 5, 8, 10, 15, 20, 30];

fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/registry61");
    let catalog = Catalog::read(folder.join("tools.jsonl"))?;
    let queries = std::fs::read_to_string(folder.join("queries.jsonl"))?;
    let queries: Vec<LabelledQuery> =
        queries.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;

    let engine = Engine::builder(catalog.clone()).build()?;
    print("Jaccard", &engine.with_scorer(Jaccard), &queries)?;
    print("BM25", &engine.with_fusion(Fusion::LexicalOnly)?, &queries)?;
    print("bundled model alone", &engine.with_fusion(Fusion::DenseOnly)?, &queries)?;
    print("default", &engine, &queries)?;
    #[cfg(feature = "onnx")]
    if let Some(model) = std::env::args().nth(1) {
        let embedder = toolrack::OnnxEmbedder::open(&model).with_context(|| model.clone())?;
        let engine = Engine::builder(catalog).embedder(embedder).build()?;
        print(&model, &engine, &queries)?;
    }
    Ok(())
}

fn print(name: &str, engine: &Engine, queries: &[LabelledQuery]) -> anyhow::Result<()> {
    let core = ["read_file", "write_file", "edit_file", "list_directory", "search_files"];
    let selector = Selector::new(engine).always_include(core);
    let table = selector.recall(queries, &KS).context(name.to_owned())?;
    println!("{name}\n{table}");
    Ok(())
}
