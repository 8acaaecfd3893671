//! Parses key presses from the bytes of a terminal.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Interrupt,
}

/// Buffer of incoming bytes; a sequence may arrive in parts.
#[derive(Debug, Default)]
pub(super) struct Keys {
    begun: Vec<u8>,
}

/// Maximum length of a sequence.
const LONGEST: usize = 16;

impl Keys {
    /// Returns the keys that are complete with these bytes. An escape byte at the end is the Escape key: terminals send
    /// sequences in one piece.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.begun.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = self.begun.as_slice();
        while !rest.is_empty() {
            let (key, length) = match rest {
                [0x1b, b'[' | b'O', tail @ ..] => match sequence(tail) {
                    Some((key, length)) => (key, length + 2),
                    None if rest.len() < LONGEST => break,
                    None => (None, rest.len()),
                },
                // A lone Escape, or one that starts no sequence.
                [0x1b, ..] => (Some(Key::Escape), 1),
                [b'\r' | b'\n', ..] => (Some(Key::Enter), 1),
                [0x7f | 0x08, ..] => (Some(Key::Backspace), 1),
                [0x03, ..] => (Some(Key::Interrupt), 1),
                [byte, ..] if *byte < 0x20 => (None, 1),
                [byte, ..] if byte.is_ascii() => (Some(Key::Char(char::from(*byte))), 1),
                _ => match std::str::from_utf8(rest) {
                    Ok(text) => character(text),
                    Err(error) if error.valid_up_to() > 0 => {
                        let text = std::str::from_utf8(&rest[..error.valid_up_to()]);
                        character(text.unwrap_or_default())
                    }
                    Err(error) if error.error_len().is_none() && rest.len() < 4 => break,
                    Err(_) => (None, 1),
                },
            };
            keys.extend(key);
            rest = &rest[length.max(1)..];
        }
        self.begun = rest.to_vec();
        keys
    }
}

fn character(text: &str) -> (Option<Key>, usize) {
    let first = text.chars().next();
    (first.map(Key::Char), first.map_or(1, char::len_utf8))
}

/// Parses the bytes after `ESC [` or `ESC O` (xterm's control sequences); `None` if incomplete.
fn sequence(tail: &[u8]) -> Option<(Option<Key>, usize)> {
    let end = tail.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let key = match (&tail[..end], tail[end]) {
        (_, b'A') => Some(Key::Up),
        (_, b'B') => Some(Key::Down),
        (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
        (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        _ => None,
    };
    Some((key, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_characters_become_keys() {
        let mut keys = Keys::default();
        assert_eq!(
            keys.take(b"q\x1b[A\x1bOB\x1b[5~\r\x7f\x03"),
            [
                Key::Char('q'),
                Key::Up,
                Key::Down,
                Key::PageUp,
                Key::Enter,
                Key::Backspace,
                Key::Interrupt,
            ]
        );
        assert_eq!(keys.take(b"\x1b"), [Key::Escape]);
        assert_eq!(keys.take(b"\x1b[1;5D"), [], "unknown ones are passed over");
        assert_eq!(keys.take("ü".as_bytes()), [Key::Char('ü')]);
    }

    #[test]
    fn what_comes_in_parts_is_put_together() {
        let mut keys = Keys::default();
        assert_eq!(keys.take(b"\x1b["), []);
        assert_eq!(keys.take(b"6~x"), [Key::PageDown, Key::Char('x')]);
        let (first, second) = "é".as_bytes().split_at(1);
        assert_eq!(keys.take(first), []);
        assert_eq!(keys.take(second), [Key::Char('é')]);
    }
}
