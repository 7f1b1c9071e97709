//! A long request in pieces.

/// Words from which a request is long.
const LONG: usize = 60;
/// Words that a piece has at least; shorter ones join the one before.
const SHORTEST: usize = 4;
/// Pieces that are looked at.
const MOST: usize = 24;

/// The sentences and lines of a long request, none for a short one.
///
/// A page of text wants several tools and says of each in one sentence; as a whole it is near to
/// none of them. A request is long from 60 words between white space on. The constants were chosen
/// on the nine development sets (ARCHITECTURE.md, "select"); 60 itself hardly matters.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    if text.split_whitespace().nth(LONG).is_none() {
        return Vec::new();
    }
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    let mut push = |start: usize, end: usize| {
        let piece = &text[start..end];
        let words = piece.split_whitespace().count();
        match pieces.last_mut() {
            _ if words == 0 => {}
            Some(last) if words < SHORTEST => last.1 = end,
            _ => pieces.push((start, end)),
        }
    };
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|&(_, next)| next);
        let ends = match c {
            '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
            '\n' | '。' | '！' | '？' => true,
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            push(start, end);
            start = end;
        }
    }
    push(start, text.len());
    pieces.truncate(MOST);
    pieces.into_iter().map(|(start, end)| text[start..end].trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_requests_have_no_pieces() {
        assert!(pieces("").is_empty());
        assert!(pieces(&"word. ".repeat(60)).is_empty());
    }

    #[test]
    fn long_requests_are_cut_at_sentences_and_lines() {
        let filler = "one two three four five ".repeat(12);
        let text = format!("Send a mail to Ana. Thanks! {filler}\nThen book the room v1.5 for us");
        let pieces = pieces(&text);
        assert_eq!(pieces[0], "Send a mail to Ana. Thanks!");
        assert_eq!(pieces.last(), Some(&"Then book the room v1.5 for us"));
        assert_eq!(pieces.len(), 3);
    }

    #[test]
    fn there_are_never_more_than_can_be_embedded() {
        assert_eq!(pieces(&"a b c d e.\n".repeat(10_000)).len(), MOST);
    }
}
