//! Text of a guest, as it may be shown and kept.

/// The beginning of a guest's text, of at most `room` bytes, without characters that steer a
/// terminal.
pub(crate) fn cut(mut text: String, room: usize) -> String {
    if text.len() > room {
        let end = (0..=room)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    if text.contains(|c: char| c.is_control() && c != '\n') {
        text.retain(|c| !c.is_control() || c == '\n');
    }
    text
}
