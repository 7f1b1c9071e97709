//! Text files line by line, with a bound on what one line may hold.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// The longest line that is read, in bytes: the largest published tool definition is far below, and
/// a file that is one line by mistake must not fill the memory.
pub(crate) const MAX_LINE: usize = 16 * 1024 * 1024;

/// The lines of one file with their numbers from 1; empty lines are skipped.
pub(crate) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    number: usize,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("cannot read {}: give a readable file", path.display()),
            )
            .with_source(error)
        })?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), number: 0 })
    }

    /// An error that names the file and `line`.
    pub(crate) fn error(path: &Path, line: usize, what: &str) -> Error {
        Error::new(ErrorKind::Format, format!("{}, line {line}: {what}", path.display()))
    }

    /// What is wrong with the JSON of one line, whose number is told apart.
    pub(crate) fn json_error(error: &serde_json::Error) -> String {
        error.to_string().replace(" at line 1 column ", " at column ")
    }

    fn read(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let bound = MAX_LINE as u64 + 1;
        let read = self.file.by_ref().take(bound).read_until(b'\n', &mut bytes);
        self.number += 1;
        read.map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!(
                    "{}, line {}: the file cannot be read on",
                    self.path.display(),
                    self.number
                ),
            )
            .with_source(error)
        })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() > MAX_LINE {
            return Err(Self::error(
                &self.path,
                self.number,
                &format!(
                    "the line is longer than {} MiB: write one JSON object a line",
                    MAX_LINE / (1024 * 1024)
                ),
            ));
        }
        String::from_utf8(bytes).map(Some).map_err(|error| {
            let at = error.utf8_error().valid_up_to() + 1;
            let what = format!("byte {at} is not UTF-8: save the file as UTF-8");
            Self::error(&self.path, self.number, &what)
        })
    }
}

impl Iterator for Lines {
    type Item = Result<(usize, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read() {
                Ok(None) => return None,
                Ok(Some(line)) => {
                    let line = line.trim_start_matches('\u{feff}').trim_end();
                    if !line.trim().is_empty() {
                        return Some(Ok((self.number, line.to_owned())));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The whole of a file of lines, each within the bound, line numbers kept.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let mut last = 0;
    for line in Lines::open(path)? {
        let (number, line) = line?;
        text.extend(std::iter::repeat_n('\n', number - last));
        text.push_str(&line);
        last = number;
    }
    // The first line begins the text: no line feed comes before it.
    Ok(text.strip_prefix('\n').map(str::to_owned).unwrap_or(text))
}
