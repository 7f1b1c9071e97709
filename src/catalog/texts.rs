//! Every text in a piece of JSON, and where it stands.

use std::borrow::Cow;

/// Levels that a place tells; what is deeper stands at the last of them.
const MAX_DEPTH: usize = 64;

/// What is open around a place in the JSON.
struct Level {
    /// Length of the place of the level itself.
    outer: usize,
    within: Within,
}

enum Within {
    Object { key_next: bool },
    Array { item: usize },
}

/// Gives `look` each key and each string of `json`, in order, with its place
/// (`parameters.items[2].title`); in a place keys are written as `written` does.
///
/// `json` has to be JSON. Unlike a parser this passes over no key that is repeated, goes as deep as
/// the text does, and does not stop at an escape that is no character.
///
/// Complexity: O(text) time, O(depth) memory.
pub(super) fn each(json: &str, written: impl Fn(&str) -> String, mut look: impl FnMut(&str, &str)) {
    let bytes = json.as_bytes();
    let mut place = String::new();
    let mut open: Vec<Level> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let told = open.len() <= MAX_DEPTH;
        match byte {
            b'{' => {
                let within = Within::Object { key_next: true };
                open.push(Level { outer: place.len(), within });
            }
            b'[' => {
                open.push(Level { outer: place.len(), within: Within::Array { item: 0 } });
                if open.len() <= MAX_DEPTH {
                    place += "[0]";
                }
            }
            b'}' | b']' => {
                if let Some(level) = open.pop() {
                    place.truncate(level.outer);
                }
            }
            b',' => {
                if let Some(Level { outer, within }) = open.last_mut() {
                    place.truncate(*outer);
                    match within {
                        Within::Object { key_next } => *key_next = true,
                        Within::Array { item } => {
                            *item += 1;
                            if told {
                                place += &format!("[{item}]");
                            }
                        }
                    }
                }
            }
            b'"' => {
                let end = end_of_string(bytes, at);
                let text = decoded(json.get(at + 1..end).unwrap_or_default());
                let is_key = match open.last_mut() {
                    Some(Level { within: Within::Object { key_next }, .. }) => {
                        std::mem::take(key_next)
                    }
                    _ => false,
                };
                if is_key && told {
                    if !place.is_empty() {
                        place.push('.');
                    }
                    place += &written(&text);
                }
                look(&place, &text);
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Where the string that begins at `start` has its closing quote.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// What a JSON string says; U+FFFD for half a character.
fn decoded(string: &str) -> Cow<'_, str> {
    if !string.contains('\\') {
        return Cow::Borrowed(string);
    }
    let mut units: Vec<u16> = Vec::with_capacity(string.len());
    let mut chars = string.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits = chars.as_str().get(..4).unwrap_or_default();
                    units.extend(u16::from_str_radix(digits, 16));
                    chars = chars.as_str().get(4..).unwrap_or_default().chars();
                    continue;
                }
                Some(plain) => plain,
                None => break,
            },
            plain => plain,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    Cow::Owned(String::from_utf16_lossy(&units))
}
