//! Options of a client for creating or restoring a checkpoint.

use std::collections::HashMap;

use crate::error::{Error, Result};

/// Options that CRIU leaves to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether open TCP connections are kept. Otherwise they make the checkpoint fail.
    pub tcp_established: bool,
    /// Whether file locks are kept.
    pub file_locks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tcp_established: false,
            file_locks: true,
        }
    }
}

impl Options {
    /// Parses the options of a request; an unknown one is an error.
    pub fn parse(options: &HashMap<String, String>) -> Result<Self> {
        let mut parsed = Self::default();
        for (key, value) in options {
            let place = match key.as_str() {
                "tcp-established" => &mut parsed.tcp_established,
                "file-locks" => &mut parsed.file_locks,
                _ => {
                    let known =
                        "is unknown; supported options: \"tcp-established\", \"file-locks\"";
                    return Err(Error::invalid(format!("options[{key:?}]"), known).into());
                }
            };
            *place = value.parse().map_err(|_| {
                let problem = format!("is {value:?}; it must be \"true\" or \"false\"");
                Error::invalid(format!("options[{key:?}]"), problem)
            })?;
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(key: &str, value: &str) -> Result<Options, String> {
        let options = [(key.to_owned(), value.to_owned())].into();
        Options::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn only_known_options_with_known_values_are_taken() {
        assert_eq!(Options::parse(&HashMap::new()).unwrap(), Options::default());
        assert!(parsed("tcp-established", "true").unwrap().tcp_established);
        assert!(!parsed("file-locks", "false").unwrap().file_locks);
        let error = parsed("tcp-established", "yes").unwrap_err();
        assert!(error.contains("\"yes\""), "{error}");
        let error = parsed("leave-stopped", "true").unwrap_err();
        assert!(
            error.contains("leave-stopped") && error.contains("file-locks"),
            "{error}"
        );
    }
}
