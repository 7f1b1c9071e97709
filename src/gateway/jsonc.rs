//! JSON as people write it into the files of editors: with comments and a comma too many.

/// `text` as JSON has it. Comments and commas before a closing bracket become blanks, so that errors
/// name the place that the author sees.
pub(super) fn plain(text: &str) -> String {
    // A byte order mark is what some editors begin a file with.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    // Where the last comma is, while nothing but blanks came after it.
    let mut comma = None;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => string(rest),
            '/' => comment(rest).unwrap_or(1),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(taken);
        rest = after;
        match first {
            '/' if taken > 1 => blank(&mut out, token),
            ' ' | '\t' | '\r' | '\n' => out.push(first),
            ',' => {
                comma = Some(out.len());
                out.push(',');
            }
            '}' | ']' => {
                if let Some(place) = comma.take() {
                    out.replace_range(place..=place, " ");
                }
                out.push(first);
            }
            _ => {
                comma = None;
                out.push_str(token);
            }
        }
    }
    out
}

/// The length of the string that `text` begins with, both quotes included.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the comment that `text` begins with, if it does. One that is not closed is none:
/// the parser then says where it is.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inside = text.strip_prefix("/*")?;
    inside.find("*/").map(|end| end + 4)
}

/// As many blanks as `text` has characters; lines stay lines.
fn blank(out: &mut String, text: &str) {
    out.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
}

#[cfg(test)]
mod tests {
    use super::plain;

    fn parse(text: &str) -> serde_json::Value {
        serde_json::from_str(&plain(text)).unwrap()
    }

    #[test]
    fn comments_and_commas_too_many_are_passed_over() {
        let text =
            "\u{feff}// my servers\n{\"a\": [1, 2, /* three */], // more\n \"b\": {\"c\": 1,},\n}";
        assert_eq!(parse(text), serde_json::json!({"a": [1, 2], "b": {"c": 1}}));
    }

    #[test]
    fn strings_keep_what_looks_like_one() {
        let text = r#"{"url": "https://h/*x*/", "q": "a\"//,]", "東": ",}"}"#;
        assert_eq!(plain(text), text);
    }

    #[test]
    fn what_is_wrong_stays_wrong_and_in_its_place() {
        for text in ["{\"a\": /* open", "{\"a\": / 1}", "[,]x", "{\"a\": \"open", "[1,,]"] {
            assert!(serde_json::from_str::<serde_json::Value>(&plain(text)).is_err(), "{text}");
        }
        let error = serde_json::from_str::<serde_json::Value>(&plain("// x\n/* é */ {\"a\" 1}"));
        let error = error.unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 14));
    }
}
