//! Output for the completion script of a shell.

use std::fmt::Write;

use super::things;
use super::words::{Kind, Wanted};

/// Returns the candidates for the word. A line `:files` lets the shell complete files.
pub(super) fn lines(wanted: Wanted) -> String {
    let mut text = String::new();
    let things = things::find(&wanted);
    let mut files = wanted.kinds.is_empty();
    for kind in &wanted.kinds {
        match kind {
            Kind::Words(words) => {
                for (word, what) in words {
                    offer(&mut text, &wanted, word, what);
                }
            }
            Kind::File => files = true,
            Kind::Container | Kind::Pod | Kind::Image | Kind::Handler => {}
        }
    }
    for (word, what) in things {
        offer(&mut text, &wanted, &word, &what);
    }
    if files && text.is_empty() {
        ":files\n".clone_into(&mut text);
    }
    text
}

fn offer(text: &mut String, wanted: &Wanted, word: &str, what: &str) {
    if word.starts_with(&wanted.begun) {
        // One line each, as a name may contain line breaks.
        let what = what.lines().next().unwrap_or_default();
        let _ = writeln!(text, "{}{word}\t{what}", wanted.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_like_it_is_offered() {
        let wanted = |begun: &str, kinds| Wanted {
            begun: begun.into(),
            before: "--transport=".into(),
            kinds,
            path: Vec::new(),
            endpoint: None,
            config: None,
        };
        let words = vec![
            ("spdy".to_owned(), "one\ntwo".to_owned()),
            ("websocket".to_owned(), String::new()),
        ];
        assert_eq!(
            lines(wanted("s", vec![Kind::Words(words)])),
            "--transport=spdy\tone\n"
        );
        assert_eq!(lines(wanted("x", vec![Kind::File])), ":files\n");
    }
}
