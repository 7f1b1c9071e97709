//! Where the benchmark data of other projects is, which this repository does not hold.

use std::path::PathBuf;

/// The folder of datasets: `../shared/benchdata` beside the repository, or `$TOOLRACK_SHARED/benchdata`.
///
/// `None`, with a note, when it is not there; with `TOOLRACK_REQUIRE_SHARED=1` that is a failure.
pub fn benchdata(test: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var_os("TOOLRACK_SHARED").map_or_else(|| beside.into(), PathBuf::from);
    let folder = root.join("benchdata");
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("TOOLRACK_REQUIRE_SHARED").is_ok_and(|value| value == "1");
    assert!(!required, "{test} needs {}, which is not there", folder.display());
    eprintln!("SKIPPED {test}: it needs {}", folder.display());
    None
}

/// The nine sets on which choices are made.
pub const DEV: [&str; 9] = [
    "bfcl-multiturn",
    "mcpbench",
    "mcptoolbenchpp",
    "restbench-tmdb",
    "restbench-spotify",
    "workbench",
    "tau2-bench",
    "tooltalk",
    "ultratool",
];

/// The registry that this project wrote itself.
pub fn registry61() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/registry61").into()
}
