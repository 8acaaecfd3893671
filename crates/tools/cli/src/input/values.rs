//! Values of flags: durations in Go's format, key=value pairs.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// A duration: `2s`, `1m30s`, `500ms`, or a plain number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        orlop_text::duration::typed(text).map(Self)
    }
}

/// A `key=value` pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    key: String,
    value: String,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err(format!("`{text}` is not in the form key=value")),
        }
    }
}

/// Returns the pairs as a map; the last one of a key counts.
pub(crate) fn map(pairs: &[Pair]) -> HashMap<String, String> {
    pairs
        .iter()
        .map(|pair| (pair.key.clone(), pair.value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0.as_millis());
        assert_eq!(read("2s"), Ok(2000));
        assert_eq!(read("1m30s"), Ok(90_000));
        assert_eq!(read("1.5h"), Ok(5_400_000));
        assert_eq!(read("500ms"), Ok(500));
        assert_eq!(read("20"), Ok(20_000));
        for wrong in ["", "s", "5x", "-1s", "1h2", "-5"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_need_a_key() {
        assert_eq!(
            "a=b=c".parse(),
            Ok(Pair {
                key: "a".into(),
                value: "b=c".into()
            })
        );
        assert!("=b".parse::<Pair>().is_err());
        assert!("ab".parse::<Pair>().is_err());
    }
}
