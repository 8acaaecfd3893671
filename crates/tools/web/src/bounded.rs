//! Size limits for texts and lists: users who create pods can make an endpoint's responses as long as they like.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Maximum length of a text in a list.
pub(crate) const LONGEST_TEXT: usize = 4 << 10;

/// Maximum number of texts, labels or mounts in a list.
pub(crate) const MOST: usize = 512;

/// Maximum number of pods and images.
pub(crate) const MOST_PODS: usize = 5000;

/// Truncates a text.
pub(crate) fn cut(text: &str) -> &str {
    cut_to(text, LONGEST_TEXT)
}

/// Truncates a text to a number of bytes.
pub(crate) fn cut_to(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns a text, or null if it is empty.
pub(crate) fn filled(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => cut(text).into(),
    }
}

/// Returns a list of texts.
pub(crate) fn texts(all: &[String]) -> Value {
    all.iter().take(MOST).map(|text| cut(text)).collect()
}

/// Returns labels or annotations, sorted.
pub(crate) fn map(all: &HashMap<String, String>) -> Value {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_unstable();
    let all = all.into_iter().take(MOST);
    let all = all.map(|(key, value)| (cut(key).to_owned(), cut(value).into()));
    Value::Object(all.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut_to("a\u{e4}b", 2), "a");
        assert_eq!(cut(&"x".repeat(5000)).len(), LONGEST_TEXT);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn of_many_labels_some_are_told() {
        let many = (0..2000).map(|i| (format!("{i:04}"), "x".repeat(9000)));
        let told = map(&many.collect());
        let told = told.as_object().unwrap();
        assert_eq!(told.len(), MOST);
        assert_eq!(told["0000"].as_str().unwrap().len(), LONGEST_TEXT);
    }
}
