//! The static model against the vectors of the lab that made it.

use serde_json::Value;
use toolrack::{Embedder, ErrorKind, StaticEmbedder};

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models/static")
}

fn check(model: &StaticEmbedder, name: &str) {
    let golden: Value = serde_json::from_str(include_str!("../fixtures/golden.json")).unwrap();
    let texts: Vec<&str> =
        golden["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let vectors = model.embed_documents(&texts).unwrap();
    for (row, vector) in vectors.iter().enumerate() {
        let norm: f32 = vector.iter().map(|v| v * v).sum();
        assert!((norm - 1.0).abs() < 1e-5);
        for (place, value) in vector[..8].iter().enumerate() {
            let expected = golden[name]["first8"][row][place].as_f64().unwrap() as f32;
            assert!((value - expected).abs() < 2e-5, "{name} {row}/{place}: {value} {expected}");
        }
    }
    for (pair, (a, b)) in [(0, 1), (0, 2), (1, 2)].into_iter().enumerate() {
        let cosine: f32 = vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum();
        let expected = golden[name]["cos01_02_12"][pair].as_f64().unwrap() as f32;
        assert!((cosine - expected).abs() < 2e-4, "{name} {pair}: {cosine} {expected}");
    }
}

#[test]
fn vectors_are_those_of_the_lab() {
    check(&StaticEmbedder::bundled(), "static");
    check(&StaticEmbedder::bundled().truncated(128).unwrap(), "static-128");
}

#[test]
fn the_folder_holds_the_bundled_model() {
    let opened = StaticEmbedder::open(folder()).unwrap();
    let bundled = StaticEmbedder::bundled();
    assert_eq!(opened.fingerprint(), bundled.fingerprint());
    let text = ["list the open invoices of a customer"];
    assert_eq!(opened.embed_queries(&text).unwrap(), bundled.embed_queries(&text).unwrap());
    let cut = bundled.truncated(128).unwrap();
    assert_ne!(cut.fingerprint(), opened.fingerprint());
    assert_eq!(cut.dimensions(), 128);
}

#[test]
fn a_folder_without_a_model_and_a_damaged_one_are_refused() {
    let error = StaticEmbedder::open("no/such/folder").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ModelFile);

    let copy = tempfile::tempdir().unwrap();
    for name in ["model.safetensors", "tokenizer.json", "toolrack.json"] {
        std::fs::copy(folder().join(name), copy.path().join(name)).unwrap();
    }
    let weights = std::fs::read(folder().join("model.safetensors")).unwrap();
    std::fs::write(copy.path().join("model.safetensors"), &weights[..weights.len() / 2]).unwrap();
    let error = StaticEmbedder::open(copy.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ModelFile);
    assert!(error.to_string().contains("fetch it again"), "{error}");

    std::fs::remove_file(copy.path().join("toolrack.json")).unwrap();
    let error = StaticEmbedder::open(copy.path()).unwrap_err();
    assert!(error.to_string().contains("the weights are damaged"), "{error}");
}

#[test]
fn a_long_text_and_an_empty_one_give_no_error() {
    let model = StaticEmbedder::bundled();
    let long = "find the invoices ".repeat(100_000);
    let vectors = model.embed_queries(&[&long, ""]).unwrap();
    assert!(vectors[0].iter().any(|&value| value != 0.0));
    assert!(vectors[1].iter().all(|&value| value == 0.0));
}
