//! Text of strangers, as it may be shown: what a process calls its files, threads and functions.

/// Without what moves a terminal's cursor, or turns the order of what stands around it.
pub(crate) fn plain(text: &str) -> String {
    text.replace(is_no_letter, "?")
}

fn is_no_letter(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        let text = "/lib/\u{1b}[2Ja\u{9b}b\n\u{202e}é\u{2066}.so";
        assert_eq!(plain(text), "/lib/?[2Ja?b??é?.so");
    }
}
