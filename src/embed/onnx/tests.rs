use std::path::PathBuf;

use super::*;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-onnx")
}

#[test]
fn padding_and_cut_of_the_tokenizer_file_are_overridden() {
    let settings = Settings::read(&tiny(), &OnnxOptions::default().max_tokens(4)).unwrap();
    let bytes = folder::read(&tiny(), "tokenizer.json").unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(r#""Fixed": 64"#), "the fixture no longer pads");

    let tokenizer = settings.tokenizer(&tiny(), &bytes).unwrap();
    let batch = tokenizer.encode_batch(vec!["find", "find a mail tool a tool"], true).unwrap();
    assert_eq!(batch[0].get_ids(), [2, 5, 0, 0]);
    assert_eq!(batch[0].get_attention_mask(), [1, 1, 0, 0]);
    assert_eq!(batch[1].get_ids(), [2, 5, 6, 4]);
    assert_eq!(tokenizer.encode("find", true).unwrap().get_ids(), [2, 5]);
}

#[test]
fn room_for_the_text_is_asked_for() {
    let settings = Settings::read(&tiny(), &OnnxOptions::default().max_tokens(1)).unwrap();
    let bytes = folder::read(&tiny(), "tokenizer.json").unwrap();
    let error = settings.tokenizer(&tiny(), &bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert_eq!(
        error.to_string(),
        "max_tokens is 1, but the model's own marks take 1: give at least 2"
    );
}

#[test]
fn a_tokenizer_without_padding_is_given_one_from_the_config_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        r#"{"pad_token": {"content": "[PAD]"}}"#,
    )
    .unwrap();
    let bytes = folder::read(&tiny(), "tokenizer.json").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    json["padding"] = serde_json::Value::Null;
    let settings = Settings::read(folder.path(), &OnnxOptions::default()).unwrap();
    let tokenizer = settings.tokenizer(folder.path(), json.to_string().as_bytes()).unwrap();
    let padding = tokenizer.get_padding().unwrap();
    assert_eq!((padding.pad_token.as_str(), padding.pad_id), ("[PAD]", 0));
}

#[test]
fn the_placeholder_is_a_tokenizer() {
    let files = placeholder_tokenizer();
    tokenizers::Tokenizer::from_bytes(&files.tokenizer_file).unwrap();
    for bytes in [files.config_file, files.special_tokens_map_file, files.tokenizer_config_file] {
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
    }
}

#[test]
fn a_model_can_be_sent_and_shared() {
    fn check<T: Send + Sync + Clone + fmt::Debug>() {}
    check::<OnnxEmbedder>();
}
