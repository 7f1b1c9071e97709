//! Finding and loading the ONNX Runtime library.
//!
//! ort loads the library by itself at the first use and panics when it cannot. So it is found here
//! first, looked at, and handed to `ort::init_from`, which answers with an error and leaves ort as
//! it was: a later attempt with another path works. What cannot be excluded beforehand is caught by
//! [`no_panic`].

use std::env;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::LoadDynamicError;

use crate::error::{Error, ErrorKind, Result};

/// The library that this process uses. ort never unloads it, so the first one stays.
///
/// The lock is held while loading: two first opens at once must not load two libraries.
static LOADED: Mutex<Option<PathBuf>> = Mutex::new(None);

const VARIABLE: &str = "ORT_DYLIB_PATH";

/// Loads ONNX Runtime unless this process has it, and gives the path it came from.
///
/// Searched in this order, the first library that loads is taken:
/// 1. `library`, or else `ORT_DYLIB_PATH`: a file, or a folder that holds one. Nothing else is
///    tried when one of them is given.
/// 2. The folder of the executable, then `lib` beside that folder.
/// 3. The folder `onnxruntime` beside `model_folder`, where `models/fetch-onnxruntime` puts it.
/// 4. The system's library path.
///
/// The working directory is not searched: an agent's tools often run in a folder that others fill.
///
/// # Errors
/// [`ErrorKind::OnnxRuntime`] when there is none, or what is there is no library, is not ONNX
/// Runtime, or is too old.
pub(crate) fn ensure(library: Option<&Path>, model_folder: Option<&Path>) -> Result<PathBuf> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &*loaded {
        return Ok(path.clone());
    }
    let from_variable = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = match (library, &from_variable) {
        (Some(path), _) => load_named(path, "the library option")?,
        (None, Some(path)) => load_named(path, VARIABLE)?,
        (None, None) => search(model_folder)?,
    };
    tracing::debug!(library = %path.display(), "loaded ONNX Runtime");
    Ok(loaded.insert(path).clone())
}

/// Runs `work`, which calls into ort, and turns a panic in it into an error of `kind`.
///
/// ort panics where it holds an error to be impossible. With `panic = "abort"` nothing can be
/// caught and the process ends.
pub(crate) fn no_panic<T>(kind: ErrorKind, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "no message".into());
        Err(Error::new(
            kind,
            format!("ONNX Runtime failed in a way that it should not: {}", advice()),
        )
        .with_source(text))
    })
}

fn advice() -> String {
    format!(
        "point {VARIABLE} at {} of ONNX Runtime 1.{} or later, which models/fetch-onnxruntime gets",
        file_name(),
        ort::MINOR_VERSION
    )
}

fn refuse(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::OnnxRuntime, format!("{message}: {}", advice()))
}

/// Loads what a person named; `who` names where.
fn load_named(path: &Path, who: &str) -> Result<PathBuf> {
    let found =
        if path.is_dir() { libraries_in(path).into_iter().next() } else { Some(path.into()) };
    match found {
        Some(file) if file.is_file() => {
            load(&file)?;
            Ok(file)
        }
        _ => Err(refuse(format!("{who} is {}, where no library is", path.display()))),
    }
}

fn search(model_folder: Option<&Path>) -> Result<PathBuf> {
    let executable = env::current_exe().ok();
    let folders = places(executable.as_deref(), model_folder, &search_path());
    let mut refused = None;
    for path in folders.iter().flat_map(|folder| libraries_in(folder)) {
        match load(&path) {
            Ok(()) => return Ok(path),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    // The loader knows more places (its cache, run paths), but only under fixed names.
    for name in [file_name(), format!("{}.1", file_name())].map(PathBuf::from) {
        let outcome = no_panic(ErrorKind::OnnxRuntime, || match init(&name) {
            Ok(()) => Ok(true),
            // Not there, as far as the loader's words can be told apart.
            Err(LoadDynamicError::Dlopen { .. }) => Ok(false),
            Err(error) => Err(explain(&name, error)),
        });
        match outcome {
            Ok(true) => return Ok(name),
            Ok(false) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| refuse("no ONNX Runtime library was found")))
}

/// The folders to look in, in order.
fn places(executable: Option<&Path>, model: Option<&Path>, system: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(bin) = executable.and_then(Path::parent) {
        folders.push(bin.to_path_buf());
        folders.extend(bin.parent().map(|prefix| prefix.join("lib")));
    }
    // `..` rather than parent(), which a path of one part does not have.
    folders.extend(model.map(|model| model.join("..").join("onnxruntime")));
    folders.extend_from_slice(system);
    folders
}

/// The system's library path: the loader's variable, then the usual folders.
fn search_path() -> Vec<PathBuf> {
    let (variables, folders): (&[&str], &[&str]) = match env::consts::OS {
        "windows" => (&["PATH"], &[]),
        "macos" => (
            &["DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"],
            &["/opt/homebrew/lib", "/usr/local/lib"],
        ),
        _ => (&["LD_LIBRARY_PATH"], &["/usr/local/lib", "/usr/lib", "/usr/lib64"]),
    };
    let mut out: Vec<PathBuf> = variables
        .iter()
        .filter_map(env::var_os)
        .flat_map(|value| env::split_paths(&value).collect::<Vec<_>>())
        // An empty or relative entry means the working directory.
        .filter(|folder| folder.is_absolute())
        .collect();
    out.extend(folders.iter().map(PathBuf::from));
    if env::consts::OS == "linux" {
        out.push(format!("/usr/lib/{}-linux-gnu", env::consts::ARCH).into());
    }
    out
}

/// What the library's file is called here without a version.
fn file_name() -> String {
    format!("{}onnxruntime{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX)
}

/// ONNX Runtime's files in `folder`: the one without a version first, then the newest first.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let plain = file_name();
    let stem = format!("{}onnxruntime.", env::consts::DLL_PREFIX);
    let mut found: Vec<(bool, Vec<u32>, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(&stem)?;
            let versioned = name.contains(env::consts::DLL_SUFFIX);
            // Follows links, unlike the entry's own type.
            (versioned && entry.path().is_file()).then(|| {
                let version = rest.split('.').filter_map(|part| part.parse().ok()).collect();
                (name == plain, version, entry.path())
            })
        })
        .collect();
    found.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
    found.into_iter().map(|(_, _, path)| path).collect()
}

fn load(path: &Path) -> Result<()> {
    inspect(path)?;
    // ort takes a relative path as relative to the executable; and a name without a folder is what
    // the system's loader searches for.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    no_panic(ErrorKind::OnnxRuntime, || init(&absolute).map_err(|error| explain(path, error)))
}

fn init(path: &Path) -> Result<(), LoadDynamicError> {
    // Only the library is wanted of the builder. The environment is left to fastembed, which keeps
    // one for the process: a host program that uses fastembed as well shares it with us.
    ort::init_from(path).map(drop)
}

fn explain(path: &Path, error: LoadDynamicError) -> Error {
    let place = path.display();
    match error {
        LoadDynamicError::BadVersion { version_str, .. } => {
            refuse(format!("{place} is ONNX Runtime {version_str}, which is too old"))
        }
        LoadDynamicError::MissingApi { .. } => {
            refuse(format!("{place} is a library, but not ONNX Runtime"))
        }
        error @ (LoadDynamicError::Dlopen { .. } | LoadDynamicError::InvalidVersionString) => {
            refuse(format!("{place} cannot be loaded on {} {}", env::consts::OS, env::consts::ARCH))
                .with_source(error)
        }
    }
}

/// Looks at the file before the system's loader does.
///
/// The loader maps a library that was cut off while it was copied without complaint, and the
/// process then dies of a bus error that nobody can catch.
fn inspect(path: &Path) -> Result<()> {
    let unreadable = |error| {
        Error::new(
            ErrorKind::OnnxRuntime,
            format!("cannot read {}: make the file readable", path.display()),
        )
        .with_source(error)
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut head = Vec::new();
    file.by_ref().take(64).read_to_end(&mut head).map_err(unreadable)?;
    let magics: &[&[u8]] = match env::consts::OS {
        "macos" => &[b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"],
        "windows" => &[b"MZ"],
        _ => &[b"\x7fELF"],
    };
    if !magics.iter().any(|magic| head.starts_with(magic)) {
        return Err(refuse(format!("{} is not a shared library", path.display())));
    }
    if let Some(needed) = elf_length(&head, &mut file).map_err(unreadable)?
        && needed > size
    {
        return Err(refuse(format!(
            "{} is cut off after {size} of at least {needed} bytes",
            path.display()
        )));
    }
    Ok(())
}

/// How long a 64-bit little-endian ELF file has to be for its segments and section table to be in
/// it; `None` for other files. Offsets are those of the ELF-64 object file format, version 1.5.
fn elf_length(head: &[u8], file: &mut File) -> std::io::Result<Option<u64>> {
    if head.len() < 64 || !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (programs, sections) = (number(head, 32, 8), number(head, 40, 8));
    let (program_size, program_count) = (number(head, 54, 2), number(head, 56, 2));
    let (section_size, section_count) = (number(head, 58, 2), number(head, 60, 2));
    let mut needed = sections.saturating_add(section_size * section_count);
    let mut table = Vec::new();
    file.seek(SeekFrom::Start(programs))?;
    file.take(program_size * program_count).read_to_end(&mut table)?;
    needed = needed.max(programs.saturating_add(program_size * program_count));
    for entry in table.chunks_exact((program_size as usize).max(56)) {
        needed = needed.max(number(entry, 8, 8).saturating_add(number(entry, 32, 8)));
    }
    Ok(Some(needed))
}

/// The little-endian number of `length` bytes at `start`.
fn number(bytes: &[u8], start: usize, length: usize) -> u64 {
    bytes[start..start + length].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn the_plain_name_comes_first_and_then_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let plain = file_name();
        let mut names = vec![plain.clone()];
        if env::consts::OS == "linux" {
            names.extend(["1.32.0", "1.9.1"].map(|version| format!("{plain}.{version}")));
        }
        for name in names.iter().rev() {
            file(folder.path(), name, b"");
        }
        file(folder.path(), "libonnxruntime_providers_shared.so", b"");
        file(folder.path(), "onnxruntime.txt", b"");
        let found = libraries_in(folder.path());
        let expected: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_executable_comes_before_the_model_and_the_system() {
        let found = places(
            Some(Path::new("/opt/app/bin/app")),
            Some(Path::new("/srv/models/minilm")),
            &[PathBuf::from("/usr/lib")],
        );
        let expected =
            ["/opt/app/bin", "/opt/app/lib", "/srv/models/minilm/../onnxruntime", "/usr/lib"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(search_path().iter().all(|folder| folder.is_absolute()));
    }

    #[test]
    fn what_is_no_library_is_refused_before_the_loader_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let text = file(folder.path(), &file_name(), b"not a library at all\n");
        for path in [text.as_path(), folder.path()] {
            let error = load_named(path, VARIABLE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OnnxRuntime);
            assert!(error.to_string().contains("is not a shared library: point ORT_DYLIB_PATH at"));
        }
        let error = load_named(&folder.path().join("gone.so"), VARIABLE).unwrap_err();
        assert!(error.to_string().starts_with("ORT_DYLIB_PATH is "), "{error}");
        assert!(error.to_string().contains("where no library is"), "{error}");
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    #[test]
    fn a_library_that_is_cut_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut whole = vec![0; 4096];
        whole[..6].copy_from_slice(b"\x7fELF\x02\x01");
        whole[40..42].copy_from_slice(&4096_u16.to_le_bytes());
        let path = file(folder.path(), "whole.so", &whole);
        inspect(&path).unwrap();
        let path = file(folder.path(), "cut.so", &whole[..1000]);
        let error = inspect(&path).unwrap_err().to_string();
        assert!(error.contains("cut off after 1000 of at least 4096 bytes"), "{error}");
        let path = file(folder.path(), "stub.so", b"\x7fELF");
        assert_eq!(load(&path).unwrap_err().kind(), ErrorKind::OnnxRuntime);
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let result: Result<()> = no_panic(ErrorKind::OnnxRuntime, || panic!("from below"));
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OnnxRuntime);
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "from below");
    }
}
