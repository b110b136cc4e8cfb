//! Text of a guest, as it may be shown and kept.

/// The longest text of a guest that gets into an error.
pub(crate) const MAX_ERROR_CHARS: usize = 500;

/// The beginning of a text of a guest or a tenant, of at most `room` bytes, as one line without characters that
/// steer a terminal or change how the text around them reads.
pub fn cut(mut text: String, room: usize) -> String {
    if text.len() > room {
        let end = (0..=room)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    if text.contains(|c| c == '\t' || is_hidden(c)) {
        text = printable(&text);
    }
    text
}

/// A text as one line without characters that steer a terminal or change how the text around them
/// reads.
pub fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' | '\u{2028}' | '\u{2029}' => Some(' '),
        c if is_hidden(c) => None,
        c => Some(c),
    };
    text.chars().filter_map(shown).collect()
}

/// Unicode's control (Cc) and format (Cf) characters, and its separators of lines: escape sequences,
/// direction of writing, what has no width.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_turns_a_line_around_is_gone() {
        let said = |text: &str| cut(text.to_owned(), 100);
        assert_eq!(said("\u{1b}[2Jgone\u{7}\u{9b}1m"), "[2Jgone1m");
        assert_eq!(
            said("abc\u{202e}dlog\u{2066}x\u{200b}y\u{e0041}"),
            "abcdlogxy"
        );
        assert_eq!(said("one\ntwo\u{2028}three\tfour"), "one two three four");
        assert_eq!(said("grün, 日本, 🚢"), "grün, 日本, 🚢");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(cut("aé".to_owned(), 2), "a…");
        assert_eq!(cut("aé".to_owned(), 3), "aé");
    }
}
