//! The README says what is so.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The text of the first fenced block of `language` after `heading`.
fn block<'a>(readme: &'a str, heading: &str, language: &str) -> &'a str {
    let (_, rest) = readme.split_once(heading).unwrap_or_else(|| panic!("no '{heading}'"));
    let (_, rest) = rest.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("\n```").unwrap().0
}

#[test]
fn the_program_is_the_example() {
    let readme = read("README.md");
    let example = read("examples/quickstart.rs");
    let program = block(&readme, "## In a program", "rust,no_run");
    assert!(example.trim_end().ends_with(program), "README.md and examples/quickstart.rs differ");
    let code = program.lines().filter(|line| !line.trim().is_empty());
    assert!(code.count() <= 15, "the README promises a short program");
}

#[test]
fn every_file_that_is_linked_is_there() {
    let readme = read("README.md");
    let links = readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    for link in links.filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(link);
        assert!(path.exists(), "README.md links to {link}, which is not there");
    }
}

#[test]
fn every_feature_is_listed() {
    let readme = read("README.md");
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let features = manifest["features"].as_table().unwrap();
    for feature in features.keys().filter(|feature| *feature != "default") {
        assert!(
            readme.contains(&format!("| `{feature}` |")),
            "README.md does not list '{feature}'"
        );
    }
}
