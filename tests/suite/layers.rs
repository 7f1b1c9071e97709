//! Imports point one way: a module uses only what stands above it in the flow.

use std::path::{Path, PathBuf};

/// The layers of ARCHITECTURE.md, top to bottom. Modules of one line may use each other.
const LAYERS: &[&[&str]] = &[
    &["error", "score", "digest"],
    &["catalog"],
    &["text"],
    &["embed", "lexical"],
    &["index"],
    &["select"],
    &["working_set"],
    &["trace"],
    &["session", "engine"],
    &["adapters", "xray", "handlers", "selector", "calibration"],
    &["config"],
    &["eval"],
    &["gateway"],
    &["cli"],
];

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&module))
        .unwrap_or_else(|| panic!("module '{module}' has no layer: put it into LAYERS"))
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The modules that a source names as `crate::module`, its docs left out.
fn imports(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.collect();
    code.join("\n")
        .split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .filter(|name: &String| name.chars().next().is_some_and(char::is_lowercase))
        .collect()
}

#[test]
fn no_module_imports_from_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut upward = Vec::new();
    let mut seen = 0;
    for file in &files {
        let relative = file.strip_prefix(&root).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(module, "lib" | "main") {
            continue;
        }
        for import in imports(&std::fs::read_to_string(file).unwrap()) {
            seen += 1;
            if layer(&import) > layer(module) {
                upward.push(format!("{} imports {import}", relative.display()));
            }
        }
    }
    assert!(seen > 50, "the scan found next to nothing");
    assert!(upward.is_empty(), "{upward:#?}");
}
