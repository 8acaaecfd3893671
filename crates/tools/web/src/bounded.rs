//! Texts and lists of a bounded size: what an endpoint tells is as long as those who made pods want.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A text in a list is no longer.
pub(crate) const LONGEST_TEXT: usize = 4 << 10;

/// A list of texts, labels or mounts has no more.
pub(crate) const MOST: usize = 512;

/// Pods and images that are told of.
pub(crate) const MOST_PODS: usize = 5000;

/// The beginning of a text.
pub(crate) fn cut(text: &str) -> &str {
    cut_to(text, LONGEST_TEXT)
}

/// The beginning of a text, of at most so many bytes.
pub(crate) fn cut_to(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// A text, or nothing where it is empty.
pub(crate) fn filled(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => cut(text).into(),
    }
}

/// Texts.
pub(crate) fn texts(all: &[String]) -> Value {
    all.iter().take(MOST).map(|text| cut(text)).collect()
}

/// Labels or annotations, in order.
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
