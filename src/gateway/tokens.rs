//! Bearer tokens and what each allows.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::{Error, ErrorKind, Result};
use crate::select::RuntimeContext;

/// The shortest token that is taken: shorter ones can be guessed.
const MIN_TOKEN: usize = 16;

/// The tokens that HTTP clients may come with.
///
/// The file is JSON: `{"tokens": [{"name": "ci", "token": "...", "context": {"scopes": ["read"]}}]}`.
/// Instead of `token` there may be `sha256`, its hash in hexadecimal. `context` is a
/// [`RuntimeContext`]; without it everything is allowed that asks for nothing. Whoever comes with a
/// token that is marked `"operator": true` may watch all sessions on the X-ray page as well.
///
/// # Example
/// ```
/// use toolrack::gateway::Tokens;
///
/// let tokens = Tokens::parse(
///     r#"{"tokens": [{"name": "ci", "token": "a-long-random-string"}]}"#,
///     "tokens.json",
/// )?;
/// assert_eq!(tokens.find("a-long-random-string").unwrap().name(), "ci");
/// assert!(tokens.find("something else").is_none());
/// # Ok::<(), toolrack::Error>(())
/// ```
pub struct Tokens {
    tokens: Vec<Token>,
}

/// One token.
#[derive(Clone)]
pub struct Token {
    name: String,
    hash: [u8; 32],
    context: RuntimeContext,
    operator: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    token: Option<String>,
    sha256: Option<String>,
    #[serde(default)]
    context: RuntimeContext,
    #[serde(default)]
    operator: bool,
}

impl Tokens {
    /// The tokens in the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, else as [`parse`](Self::parse).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let place = path.as_ref().display().to_string();
        let text = std::fs::read_to_string(path.as_ref()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot read {place}: give a readable file"))
                .with_source(error)
        })?;
        Self::parse(&text, &place)
    }

    /// The tokens in `text`, which errors call `place`. No error shows a token.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] for text of another form; [`ErrorKind::InvalidSetting`] for a token
    /// that is too short or given twice, and for a file without tokens.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let file: File = serde_json::from_str(text).map_err(|error| {
            // serde's own words may quote the text.
            Error::new(
                ErrorKind::Format,
                format!(
                    "{place} is no list of tokens (line {}, column {}): write {{\"tokens\": \
                     [{{\"name\": ..., \"token\": ...}}]}}",
                    error.line(),
                    error.column()
                ),
            )
        })?;
        let bad = |what: String| Error::new(ErrorKind::InvalidSetting, format!("{place}: {what}"));
        let mut tokens: Vec<Token> = Vec::new();
        for line in file.tokens {
            let name = line.name;
            let hash: [u8; 32] = match (line.token, line.sha256) {
                (Some(token), None) if token.len() >= MIN_TOKEN => {
                    Sha256::digest(token.as_bytes()).into()
                }
                (Some(_), None) => {
                    return Err(bad(format!(
                        "token '{name}' is shorter than {MIN_TOKEN} characters: make a longer one"
                    )));
                }
                (None, Some(hex)) => hash(&hex).ok_or_else(|| {
                    bad(format!("the sha256 of token '{name}' is not 64 hexadecimal digits"))
                })?,
                _ => {
                    return Err(bad(format!(
                        "token '{name}' needs either 'token' or 'sha256': give one"
                    )));
                }
            };
            if tokens.iter().any(|other| other.name == name || other.hash == hash) {
                return Err(bad(format!("token '{name}' is there twice: give each its own")));
            }
            tokens.push(Token { name, hash, context: line.context, operator: line.operator });
        }
        if tokens.is_empty() {
            return Err(bad("it holds no token: add one".to_owned()));
        }
        Ok(Self { tokens })
    }

    /// The token that `secret` is. Takes the same time whichever it is, and when it is none.
    pub fn find(&self, secret: &str) -> Option<&Token> {
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.hash.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        found
    }
}

impl Token {
    /// Its name, which may appear in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What whoever comes with it may use.
    pub fn context(&self) -> &RuntimeContext {
        &self.context
    }

    /// Whether whoever comes with it may watch what everybody does.
    pub fn is_operator(&self) -> bool {
        self.operator
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.tokens).finish()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

fn hash(hex: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (place, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(out)
}
