//! What the README shows can be used as it is.

use serde_json::Value;
use toolrack::gateway::{Config, Target, Tokens};

/// The fenced blocks of JSON in the section, in order.
fn blocks() -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (_, rest) = readme.split_once("## As an MCP gateway\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let block = |rest: &str| rest.split("```").next().unwrap().to_owned();
    section.split("```json\n").skip(1).map(block).collect()
}

fn read(text: &str) -> Config {
    let lookup = |name: &str| match name {
        "HOME" => Some("/home/ada".to_owned()),
        "GITHUB_TOKEN" => Some("a-token".to_owned()),
        _ => None,
    };
    Config::parse_with(text, "README.md", &lookup).unwrap()
}

#[test]
fn every_snippet_is_read() {
    let blocks = blocks();
    let [desktop, code, cursor, own, tokens] = &blocks[..] else { panic!("{blocks:#?}") };
    for snippet in [desktop, code, cursor] {
        let value: Value = serde_json::from_str(snippet).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 1);
        let config = read(snippet);
        let [server] = &config.servers[..] else { panic!("{snippet}") };
        let Target::Stdio { command, args, .. } = &server.target else { panic!("{snippet}") };
        assert!(command.ends_with("toolrack"));
        assert_eq!(args, &["serve", "--config", "/home/ada/mcp.json"]);
    }
    let config = read(own);
    let [files, github] = &config.servers[..] else { panic!("{own}") };
    assert!(files.settings.allows("files", "read_text_file"));
    assert!(!files.settings.allows("files", "delete_file"));
    assert!(github.settings.allows("github", "list_issues"));
    assert!(!github.settings.allows("github", "delete_issue"));
    assert_eq!(config.settings.session.core, ["files/read_text_file"]);
    assert!(config.settings.trust.pin_new);

    let tokens = Tokens::parse(tokens, "README.md").unwrap();
    let ci = tokens.find("a-long-random-string").unwrap();
    assert!(ci.context().namespaces.as_ref().unwrap().contains("files"));
}

/// The options in the section are options of the command.
#[test]
fn every_option_is_there() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (_, rest) = readme.split_once("## As an MCP gateway\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_toolrack"))
        .args(["serve", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let name = |rest: &str| -> String {
        rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect()
    };
    let options: Vec<String> = section.split("`--").skip(1).map(name).collect();
    assert!(options.len() >= 5, "{options:?}");
    for option in options {
        assert!(help.contains(&format!("--{option}")), "--{option} is not in\n{help}");
    }
}
