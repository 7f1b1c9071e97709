//! The documented keys against the real ones.

use super::keys::{KEYS, TABLES};
use super::*;

fn assign(path: &str, value: &str) -> String {
    match path.rsplit_once('.') {
        Some((table, name)) => format!("[{table}]\n{name} = {value}\n"),
        None => format!("{path} = {value}\n"),
    }
}

#[test]
fn documented_defaults_are_the_defaults() {
    for key in KEYS {
        let Some(default) = key.default else { continue };
        let mut config = Config::parse(&assign(key.path, default), "doc").unwrap();
        config.gateway.clear();
        assert_eq!(config, Config::default(), "{}", key.path);
    }
}

#[test]
fn examples_are_valid_and_every_table_is_described() {
    // What tune writes is all or nothing.
    for key in KEYS.iter().filter(|key| !key.path.starts_with("fitted")) {
        let text = if key.is_map {
            format!("[{}]\n{}\n", key.path, key.example)
        } else {
            assign(key.path, key.default.unwrap_or(key.example))
        };
        Config::parse(&text, "doc").unwrap();
        let table = key.path.rsplit_once('.').map_or("", |(table, _)| table);
        assert!(TABLES.iter().any(|(name, _)| *name == table), "{table}");
    }
    Config::parse(&Config::template(), "template").unwrap();

    // Who takes away every `#` before a key or a table gets a valid file, too.
    let is_key = |line: &str| {
        line.starts_with('[')
            || line.split_once(" = ").is_some_and(|(key, _)| !key.trim_matches('"').contains(' '))
    };
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if is_key(rest) => rest.replace("  (an example)", ""),
        _ => line.to_owned(),
    };
    let whole: Vec<String> = Config::template().lines().map(line).collect();
    assert!(whole.iter().filter(|line| !line.starts_with('#')).count() > KEYS.len(), "{whole:?}");
    Config::parse(&whole.join("\n"), "template").unwrap();
}

/// What serde knows of the option structs has to be documented.
#[test]
fn no_key_is_undocumented() {
    let gate =
        Gate { read: Some(0.1), write: Some(0.1), destructive: Some(0.1), ..Gate::default() };
    let session = SessionOptions::default()
        .pass_through(1)
        .token_budget(1)
        .compressed(1)
        .intent(crate::select::IntentRules::english());
    let policy = RuntimeContext::default()
        .stage("s")
        .environment("e")
        .tenant("t")
        .approve_namespaces(["n"])
        .allow_tools([]);
    let tables = [
        ("engine.fields", toml::Value::try_from(FieldWeights::default()).unwrap()),
        ("engine.gate", toml::Value::try_from(gate).unwrap()),
        ("session", toml::Value::try_from(&session).unwrap()),
        ("session.working_set", toml::Value::try_from(&session.working_set).unwrap()),
        ("policy", toml::Value::try_from(policy).unwrap()),
    ];
    for (table, value) in tables {
        for key in value.as_table().unwrap().keys().filter(|key| *key != "context") {
            let path = format!("{table}.{key}");
            let known = KEYS.iter().any(|key| key.path == path)
                || TABLES.iter().any(|(table, _)| *table == path);
            assert!(known, "{path}");
        }
    }
}

#[test]
fn what_is_written_is_read() {
    let text = "catalog = [\"a.json\"]\n[engine]\nembedder = \"static:64\"\nfusion = \"rrf\"\n\
                rank_constant = 10.0\n[engine.fields]\nname = 5\n[engine.gate]\nread = 0.31\n\
                [policy]\nscopes = [\"x\"]\n[session]\ncore = [\"a\"]\n[session.working_set]\n\
                limit = 7\ntiming = \"immediate\"\n[gateway]\nmode = \"bridge\"\n[fitted]\n\
                dataset = \"d\"\nfingerprint = \"f\"\nseed = 3\n";
    let config = Config::parse(text, "a").unwrap();
    let written = config.to_toml();
    assert_eq!(Config::parse(&written, "b").unwrap(), config, "{written}");
    assert!(written.contains("read = 0.31\n"), "{written}");
    assert_eq!(Config::default().to_toml(), "");
}

#[test]
fn wrong_files_say_where_and_what_was_meant() {
    let error = |text: &str| Config::parse(text, "t.toml").unwrap_err().to_string();
    insta::assert_snapshot!(error("[engine]\nfussion = \"rrf\""), @"t.toml, line 2: unknown key 'engine.fussion': did you mean 'fusion'?");
    insta::assert_snapshot!(error("[sesion]\ncore = []"), @"t.toml, line 1: unknown key 'sesion': did you mean 'session'?");
    insta::assert_snapshot!(error("[session]\nlimit = 3"), @"t.toml, line 2: unknown key 'session.limit': did you mean 'session.working_set.limit'?");
    insta::assert_snapshot!(error("zzz = 3"), @"t.toml, line 1: unknown key 'zzz': see toolrack config for all keys");
    insta::assert_snapshot!(error("[session.working_set]\n\nlimit = 0"), @"t.toml: the tool limit is 0: allow at least one tool");
    insta::assert_snapshot!(error("[session]\nretrieve = \"many\""), @r#"t.toml, line 2: invalid type: string "many", expected usize: mend the value"#);
    assert!(error("[session\nretrieve = 1").starts_with("t.toml, line 1: "));
    let fusion = error("[engine]\nfusion = \"mean\"");
    assert!(
        fusion.starts_with("t.toml, line 2: unknown variant `mean`, expected one of"),
        "{fusion}"
    );
    insta::assert_snapshot!(error("[engine.gate]\nread = 7.0"), @"t.toml: a threshold of the gate is out of range: give a cosine in [-1, 1]");
    let config = Config::parse("[engine]\nembedder = \"nowhere\"", "t").unwrap();
    insta::assert_snapshot!(config.open_embedder().err().unwrap(), @"there is no model 'nowhere': write static, static:128, none, or a model's folder");
}
