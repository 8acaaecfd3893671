//! Query parameters of requests.

/// The parameters of a request, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(text: Option<&str>) -> Self {
        let pairs = text
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let mut values = self.0.iter();
        values
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// Returns all values of a key.
    pub(super) fn all(&self, key: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(k, _)| k == key);
        values.map(|(_, value)| value.clone()).collect()
    }

    /// Whether a key is true, under any of its names.
    pub(super) fn is_true(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| {
            matches!(
                self.get(key),
                Some("1" | "true" | "True" | "TRUE" | "t" | "T")
            )
        })
    }

    /// Parses a number; the error describes what is wrong.
    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| format!("{key} must be a non-negative number, not {text:?}\n")),
        }
    }
}

/// Decodes RFC 3986 percent encoding, with `+` for a blank as in forms.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok());
                match digits.and_then(|it| u8::from_str_radix(it, 16).ok()) {
                    Some(byte) => {
                        bytes.push(byte);
                        rest = &rest[2..];
                    }
                    None => bytes.push(b'%'),
                }
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::read(Some(
            "command=sh&command=-c&command=a%20%26+b&tty=1&x&n=5&bad=%zz",
        ));
        assert_eq!(query.all("command"), ["sh", "-c", "a & b"]);
        assert!(query.is_true(&["tty"]) && !query.is_true(&["x", "y"]));
        assert_eq!(query.number::<u64>("n"), Ok(Some(5)));
        assert_eq!(query.number::<u64>("y"), Ok(None));
        assert!(query.number::<u64>("bad").is_err());
        assert_eq!(query.get("bad"), Some("%zz"));
        assert_eq!(Query::read(None), Query::default());
    }
}
