//! Assertions about text.

/// Asserts that a text contains each of some strings, and prints the text if it does not.
#[macro_export]
macro_rules! assert_contains {
    ($text:expr, $($word:expr),+ $(,)?) => {{
        let text = &$text;
        $(
            let word = $word;
            assert!(text.contains(word), "{word:?} is not in: {text}");
        )+
    }};
}
