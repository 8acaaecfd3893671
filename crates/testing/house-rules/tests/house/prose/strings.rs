//! String literals that users may read: those with three words or more.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::markdown::Passage;
use super::patterns::replaced;
use crate::words::{without_tests, words};

/// Returns the string literals outside of tests.
pub fn literals(text: &str) -> Vec<Passage> {
    let words = without_tests(words(text));
    let literals = words.into_iter().filter_map(|word| {
        let inside = word.trim_start_matches(['b', 'r', '#']).strip_prefix('"')?;
        let inside = inside.trim_end_matches('#').strip_suffix('"')?;
        let inside = readable(inside);
        is_prose(&inside).then(|| Passage {
            line: line_of(text, word),
            text: inside,
        })
    });
    literals.collect()
}

/// Returns the text as printed, with X for each value.
fn readable(literal: &str) -> String {
    static PARTS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
        [
            (r"\\\n\s*", ""),
            (r"\\n", ". "),
            (r#"\\""#, "\""),
            (r"\{\{|\}\}", ""),
            (r"\{[^}]*\}", "X"),
        ]
        .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    });
    replaced(literal, &*PARTS)
}

/// Returns whether a text has three words, and if it is long, also words that occur in sentences: lists of names have
/// none.
fn is_prose(text: &str) -> bool {
    const OF_SENTENCES: [&str; 7] = ["the", "a", "an", "is", "are", "to", "of"];
    let letters = |word: &&str| word.bytes().filter(u8::is_ascii_alphabetic).count() > 1;
    let words = text.split_whitespace().filter(letters).count();
    let mut all = text.split_whitespace();
    (3..30).contains(&words) || words > 2 && all.any(|word| OF_SENTENCES.contains(&word))
}

fn line_of(text: &str, word: &str) -> usize {
    let at = word.as_ptr() as usize - text.as_ptr() as usize;
    text[..at].matches('\n').count() + 1
}

#[test]
fn texts_of_a_program_are_found_and_those_of_tests_are_not() {
    let source = "fn f() {\n    log!(\"the {x} of\\\n        all pods\");\n    let _ = r#\"a \"raw\" text here\"#;\n}\n\
                  #[cfg(test)]\nmod tests { const T: &str = \"not for a user\"; }\n// \"a comment with words\"\n";
    let found: Vec<_> = literals(source)
        .into_iter()
        .map(|literal| (literal.line, literal.text))
        .collect();
    let expected = [(2, "the X ofall pods"), (4, "a \"raw\" text here")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}
