//! What happens when the ONNX Runtime library is not what it should be.
//!
//! A process loads one library and keeps it, so each case runs in a process of its own: this test
//! binary again, told by a variable to run [`child`] only.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolrack::OnnxEmbedder;

use super::{options, required, tiny};

const CHILD: &str = "TOOLRACK_TEST_CHILD";

/// Opens the model with what the environment names, then again with the fetched library.
#[test]
fn child() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let report = |result: toolrack::Result<OnnxEmbedder>| match result {
        Ok(_) => "opened".to_string(),
        Err(error) => format!("{:?}: {error}", error.kind()),
    };
    println!("=first= {}", report(OnnxEmbedder::open(tiny())));
    println!("=again= {}", report(OnnxEmbedder::open(tiny())));
    if let Some(library) = env::var_os(CHILD).filter(|value| !value.is_empty()) {
        let options = toolrack::OnnxOptions::default().library(library);
        println!("=mended= {}", report(OnnxEmbedder::open_with(tiny(), options)));
        // A library that is loaded stays, whatever the variable says.
        println!("=after= {}", report(OnnxEmbedder::open(tiny())));
    }
}

/// A library that works, if there is one.
fn working() -> Option<PathBuf> {
    let named = env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let fetched = super::root().join("models/onnxruntime");
    let found = named.or_else(|| fetched.is_dir().then_some(fetched));
    match found {
        Some(path) if OnnxEmbedder::open_with(tiny(), options()).is_ok() => Some(path),
        _ if required() => panic!("TOOLRACK_REQUIRE_ONNX is set, but no library works"),
        _ => None,
    }
}

/// Runs [`child`] with `ORT_DYLIB_PATH` set to `library`, or without it.
fn run(library: Option<&Path>) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "onnx::library::child", "--nocapture"]);
    command.env(CHILD, working().unwrap_or_default());
    command.env_remove("ORT_DYLIB_PATH").env_remove("LD_LIBRARY_PATH");
    if let Some(library) = library {
        command.env("ORT_DYLIB_PATH", library);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // No panic, no signal: the errors are errors.
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn check(library: Option<&Path>, expected: &str) {
    let text = run(library);
    // libtest may put its own words on the first line.
    let line =
        |word: &str| text.lines().find_map(|line| line.split_once(word)).map(|(_, rest)| rest);
    for word in ["=first= ", "=again= "] {
        let got = line(word).unwrap_or_else(|| panic!("no '{word}' in {text}"));
        assert!(got.starts_with("OnnxRuntime: "), "{got}");
        assert!(got.contains(expected), "{got}");
        assert!(got.contains("point ORT_DYLIB_PATH at") && got.contains("1.24 or later"), "{got}");
    }
    if working().is_some() {
        assert_eq!(line("=mended= "), Some("opened"), "{text}");
        assert_eq!(line("=after= "), Some("opened"), "{text}");
    } else {
        println!("skipped: no library to go on with");
    }
}

#[test]
fn a_path_without_a_file() {
    check(Some(Path::new("/no/such/libonnxruntime.so")), "ORT_DYLIB_PATH is /no/such/libonnx");
}

#[test]
fn a_text_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libonnxruntime.so");
    std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\n").unwrap();
    check(Some(&path), "libonnxruntime.so is not a shared library");
}

#[test]
fn none_at_all() {
    let text = run(None);
    if text.contains("=first= opened") {
        println!("skipped: this system has a library in its path");
        return;
    }
    check(None, "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_that_was_cut_off() {
    let Some(path) = working() else { return println!("skipped: no library to cut") };
    let whole = if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| path.to_string_lossy().contains(".so")).unwrap()
    } else {
        path
    };
    let bytes = std::fs::read(whole).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libonnxruntime.so");
    std::fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();
    check(Some(&path), "is cut off after");
}

/// A library made of `source`; `None` where there is no C compiler.
#[cfg(target_os = "linux")]
fn compile(folder: &Path, source: &str) -> Option<PathBuf> {
    let (code, path) = (folder.join("fake.c"), folder.join("libonnxruntime.so"));
    std::fs::write(&code, source).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&path, &code]).status();
    made.is_ok_and(|status| status.success()).then_some(path)
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_that_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
        static const void *api(unsigned version) { return 0; }
        static const char *version(void) { return "1.17.3"; }
        static const struct { const void *(*a)(unsigned); const char *(*v)(void); } base = {api, version};
        const void *OrtGetApiBase(void) { return &base; }
    "#;
    let Some(path) = compile(folder.path(), source) else { return println!("skipped: no cc") };
    check(Some(&path), "libonnxruntime.so is ONNX Runtime 1.17.3, which is too old");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_of_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = compile(folder.path(), "int unrelated(void) { return 1; }") else {
        return println!("skipped: no cc");
    };
    check(Some(&path), "libonnxruntime.so is a library, but not ONNX Runtime");
}
