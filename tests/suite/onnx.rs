//! ONNX models through the public interface.
//!
//! What needs the ONNX Runtime library is skipped where there is none, unless
//! `TOOLRACK_REQUIRE_ONNX=1` asks for it; `models/fetch-onnxruntime` gets it.

mod library;

use std::env;
use std::error::Error as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use toolrack::{
    Catalog, Embedder, Engine, Error, ErrorKind, LabelledQuery, OnnxEmbedder, OnnxOptions, Pooling,
    Selector,
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn tiny() -> PathBuf {
    root().join("tests/fixtures/tiny-onnx")
}

/// Not part of the published package.
fn minilm() -> PathBuf {
    root().join("models/minilm-tuned")
}

/// Options that find the fetched library from any model folder.
fn options() -> OnnxOptions {
    let fetched = root().join("models/onnxruntime");
    if env::var_os("ORT_DYLIB_PATH").is_none() && fetched.is_dir() {
        OnnxOptions::default().library(fetched)
    } else {
        OnnxOptions::default()
    }
}

/// The result, or `None` with a note when the test has to be skipped for want of the library.
fn unless_missing<T>(result: Result<T, Error>) -> Option<Result<T, Error>> {
    match result {
        Err(error) if error.kind() == ErrorKind::OnnxRuntime && !required() => {
            println!("skipped: {error}");
            None
        }
        result => Some(result),
    }
}

fn required() -> bool {
    env::var_os("TOOLRACK_REQUIRE_ONNX").is_some_and(|value| value == "1")
}

#[test]
fn the_tuned_model_finds_more_of_the_registry() {
    let Some(model) = open(minilm(), options()) else { return };
    let catalog = Catalog::parse(include_str!("../fixtures/registry61/tools.jsonl")).unwrap();
    let queries: Vec<LabelledQuery> = include_str!("../fixtures/registry61/queries.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let engine = Engine::builder(catalog).embedder(model).build().unwrap();
    let core = ["read_file", "write_file", "edit_file", "list_directory", "search_files"];
    let table = Selector::new(&engine).always_include(core).recall(&queries, &[5, 10]).unwrap();
    assert!(table.rows[0].recall >= 0.90 && table.rows[1].recall >= 0.93, "{table}");
}

fn open(folder: impl AsRef<Path>, options: OnnxOptions) -> Option<OnnxEmbedder> {
    let folder = folder.as_ref();
    if folder == minilm() && !folder.is_dir() && !required() {
        println!("skipped: the package holds no {}", folder.display());
        return None;
    }
    unless_missing(OnnxEmbedder::open_with(folder, options)).map(|result| result.unwrap())
}

fn refusal(folder: impl AsRef<Path>, options: OnnxOptions) -> Error {
    OnnxEmbedder::open_with(folder, options).unwrap_err()
}

/// A copy of the tiny model's folder, with `files` added or replaced.
fn copy(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.onnx", "tokenizer.json"] {
        std::fs::copy(tiny().join(name), folder.path().join(name)).unwrap();
    }
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn near(got: &[f32], expected: &[f32]) {
    let far = got.iter().zip(expected).any(|(a, b)| (a - b).abs() > 1e-5);
    assert!(got.len() == expected.len() && !far, "{got:?} is not {expected:?}");
}

#[test]
fn pooling_and_prefixes_do_what_they_say() {
    let Some(mean) = open(tiny(), options()) else { return };
    // [CLS] is (1, 0, 0, 0) and "send" (0, 2, 0, 0).
    let length = 5.0_f32.sqrt();
    near(&mean.embed_queries(&["send"]).unwrap()[0], &[1.0 / length, 2.0 / length, 0.0, 0.0]);
    let cls = open(tiny(), options().pooling(Pooling::Cls)).unwrap();
    near(&cls.embed_queries(&["send"]).unwrap()[0], &[1.0, 0.0, 0.0, 0.0]);

    let prefixed = open(tiny(), options().query_prefix("send ").document_prefix("mail ")).unwrap();
    let find = mean.embed_queries(&["send find", "mail find", "find"]).unwrap();
    near(&prefixed.embed_queries(&["find"]).unwrap()[0], &find[0]);
    near(&prefixed.embed_documents(&["find"]).unwrap()[0], &find[1]);
    assert!(cosine(&find[0], &find[2]) < 0.95);
    assert!(mean.embed_queries(&[]).unwrap().is_empty());
}

#[test]
fn weights_in_a_file_of_their_own_are_read_and_count() {
    let Some(whole) = open(tiny(), options()) else { return };
    let beside = open(tiny(), options().file("beside.onnx")).unwrap();
    let text = ["find a mail tool"];
    near(&beside.embed_queries(&text).unwrap()[0], &whole.embed_queries(&text).unwrap()[0]);

    let read = |name: &str| std::fs::read(tiny().join(name)).unwrap();
    let mut data = read("beside.onnx_data");
    data[35] = 0x40;
    let folder = copy(&[("beside.onnx", &read("beside.onnx")), ("beside.onnx_data", &data)]);
    let other = open(folder.path(), options().file("beside.onnx").name("tiny-onnx")).unwrap();
    assert_ne!(other.fingerprint(), beside.fingerprint());
}

#[test]
fn everything_that_changes_vectors_is_in_the_fingerprint() {
    let Some(plain) = open(tiny(), options()) else { return };
    assert!(plain.fingerprint().starts_with("tiny-onnx/unnamed/"), "{}", plain.fingerprint());
    assert!(plain.fingerprint().contains("/4/mean/512/"), "{}", plain.fingerprint());
    let mut seen = vec![plain.fingerprint()];
    for options in [
        options().pooling(Pooling::Cls),
        options().query_prefix("q"),
        options().document_prefix("q"),
        options().max_tokens(64),
        options().name("other"),
        options().revision("2"),
        options().file("positions.onnx").max_tokens(8),
    ] {
        seen.push(open(tiny(), options).unwrap().fingerprint());
    }
    let tokenizer = std::fs::read_to_string(tiny().join("tokenizer.json")).unwrap();
    let folder = copy(&[("tokenizer.json", tokenizer.replace("mail", "post").as_bytes())]);
    seen.push(open(folder.path(), options().name("tiny-onnx")).unwrap().fingerprint());
    let total = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), total);
    // What changes only the speed is not.
    let fast = open(tiny(), options().threads(2).batch_size(3)).unwrap();
    assert_eq!(fast.fingerprint(), plain.fingerprint());
}

#[test]
fn files_that_are_missing_or_damaged_are_named() {
    let model = std::fs::read(tiny().join("model.onnx")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let no_tokenizer = tempfile::tempdir().unwrap();
    std::fs::write(no_tokenizer.path().join("model.onnx"), &model).unwrap();
    let cut = copy(&[("model.onnx", &model[..200])]);
    let html = copy(&[("model.onnx", b"<!DOCTYPE html><html>not found</html>")]);
    let tokenizer = copy(&[("tokenizer.json", b"{}")]);
    let checksum = copy(&[("toolrack.json", br#"{"sha256": "00"}"#)]);
    let cases = [
        (Path::new("no/such/folder"), "there is no folder no/such/folder: point at one"),
        (empty.path(), "has no model.onnx: add it or point at"),
        (no_tokenizer.path(), "has no tokenizer.json: add it or point at"),
        (cut.path(), "model.onnx is damaged or not an ONNX model: fetch it again"),
        (html.path(), "model.onnx is damaged or not an ONNX model: fetch it again"),
        (tokenizer.path(), "tokenizer.json is damaged: fetch the model again"),
        (checksum.path(), "but its manifest says 00: fetch it again"),
    ];
    for (folder, expected) in cases {
        let error = refusal(folder, options());
        assert_eq!(error.kind(), ErrorKind::ModelFile, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_graph_that_is_whole_but_wrong_is_refused_by_the_runtime() {
    // The operator "Gather" renamed to one that does not exist.
    let mut model = std::fs::read(tiny().join("model.onnx")).unwrap();
    let place = model.windows(6).position(|bytes| bytes == b"Gather").unwrap();
    model[place..place + 6].copy_from_slice(b"Rehtag");
    let folder = copy(&[("model.onnx", &model)]);
    let Some(result) = unless_missing(OnnxEmbedder::open_with(folder.path(), options())) else {
        return;
    };
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ModelFile);
    assert!(error.to_string().contains("cannot be loaded by ONNX Runtime: fetch"), "{error}");
    assert!(error.source().unwrap().to_string().contains("Rehtag"));
}

#[test]
fn a_model_of_another_kind_is_refused() {
    let error = refusal(tiny(), options().file("pixels.onnx"));
    assert_eq!(error.kind(), ErrorKind::ModelFile);
    assert!(error.to_string().contains("asks for an input 'pixel_values'"), "{error}");
    let error = refusal(tiny(), options().file("logits.onnx"));
    assert_eq!(error.kind(), ErrorKind::ModelFile);
    assert!(error.to_string().contains("gives logits but neither last_hidden_state"), "{error}");
}

#[test]
fn dimensions_are_compared_with_the_manifest() {
    let folder = copy(&[("toolrack.json", br#"{"dimensions": 384}"#)]);
    let Some(result) = unless_missing(OnnxEmbedder::open_with(folder.path(), options())) else {
        return;
    };
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DimensionMismatch);
    assert!(
        error.to_string().contains("gives vectors of 4 dimensions but its manifest says 384"),
        "{error}"
    );
}

#[test]
fn settings_out_of_range_are_refused_before_anything_is_read() {
    for options in [options().threads(0), options().batch_size(0)] {
        let error = refusal("no/such/folder", options);
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    }
}

#[test]
fn a_text_past_the_positions_is_cut_or_said_to_be_too_long() {
    let long = "find a tool ".repeat(3_000);
    let Some(cut) = open(tiny(), options().file("positions.onnx").max_tokens(8)) else { return };
    let vectors = cut.embed_documents(&[&long, "find a tool find a tool find"]).unwrap();
    near(&vectors[0], &vectors[1]);

    let wrong = open(tiny(), options().file("positions.onnx")).unwrap();
    let error = wrong.embed_documents(&[&long]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Embedder);
    assert!(error.to_string().contains("lower max_tokens (now 512)"), "{error}");
    // And the model still works.
    wrong.embed_documents(&["find a tool"]).unwrap();
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../fixtures/golden.json")).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Compares with the lab's vectors, made in one batch.
fn check_golden(file: &str, key: &str, tolerance: f32) {
    let Some(model) = open(minilm(), options().file(file).batch_size(3)) else { return };
    assert_eq!((model.dimensions(), model.max_tokens()), (384, 128));
    let golden = golden();
    let mut vectors = Vec::new();
    let texts: Vec<&str> =
        golden["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    for (row, vector) in model.embed_documents(&texts).unwrap().into_iter().enumerate() {
        let expected = floats(&golden[key]["first8"][row]);
        for (a, b) in vector.iter().zip(&expected) {
            assert!((a - b).abs() < tolerance, "{file}: {:?} is not {expected:?}", &vector[..8]);
        }
        vectors.push(vector);
    }
    let expected = floats(&golden[key]["cos01_02_12"]);
    for ((a, b), expected) in [(0, 1), (0, 2), (1, 2)].into_iter().zip(expected) {
        let got = cosine(&vectors[a], &vectors[b]);
        assert!((got - expected).abs() < tolerance, "{file}: cosine {got} is not {expected}");
    }
}

#[test]
fn vectors_are_those_of_the_lab() {
    check_golden("model_w8.onnx", "model_w8", 5e-4);
    // Dynamic int8 rounds differently on CPUs with other instructions.
    check_golden("model_int8.onnx", "model_int8", 0.02);
}

#[test]
fn a_batch_gives_what_each_text_gives_alone() {
    let long = "create a new issue in a repository with a title and a body ".repeat(170);
    assert!(long.split_whitespace().count() > 2_000);
    // model_int8.onnx quantises dynamically: it has to be run text by text for this to hold.
    for (file, least) in [("model_w8.onnx", 0.99999), ("model_int8.onnx", 0.999999)] {
        let Some(model) = open(minilm(), options().file(file)) else { return };
        let query = "send an email to Bob";
        let alone = model.embed_documents(&[query]).unwrap();
        let beside = model.embed_documents(&[&long, query, "x"]).unwrap();
        assert!(cosine(&alone[0], &beside[1]) > least, "{file}");
        // Past the limit nothing counts, however long it is.
        let longer = long.repeat(5);
        let both = model.embed_documents(&[&longer]).unwrap();
        assert!(cosine(&both[0], &beside[0]) > least, "{file}");
    }
}

#[test]
fn more_texts_than_a_batch_keep_their_order() {
    let Some(model) = open(tiny(), options().batch_size(3)) else { return };
    let words = ["send", "mail", "find", "a", "tool"];
    let texts: Vec<String> =
        (0..20).map(|i| words[..=i % 5].join(" ") + &" a".repeat(i % 3)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = model.embed_documents(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&together) {
        near(vector, &model.embed_documents(&[text]).unwrap()[0]);
    }
}

#[test]
fn many_threads_share_one_model() {
    let Some(model) = open(minilm(), options().file("model_w8.onnx")) else { return };
    let texts: Vec<String> = (0..8).map(|i| format!("list the files of project {i}")).collect();
    let expected: Vec<_> = texts.iter().map(|t| model.embed_queries(&[t]).unwrap()).collect();
    std::thread::scope(|scope| {
        for (text, expected) in texts.iter().zip(&expected) {
            let model = model.clone();
            scope.spawn(move || {
                for _ in 0..5 {
                    near(&model.embed_queries(&[text]).unwrap()[0], &expected[0]);
                }
            });
        }
    });
}
