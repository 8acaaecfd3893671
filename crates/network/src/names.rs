//! Validation of names that become parts of paths, plugin arguments or interface names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A container ID as CNI allows it: a letter or digit, then letters, digits, `_`, `.` and `-`. It becomes part of
/// file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContainerId(String);

/// The name of a network interface: 1 to 15 bytes, no `/`, `:` or white space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InterfaceName(String);

/// A name that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} cannot be {what}: {rule}")]
pub struct InvalidName {
    what: &'static str,
    value: String,
    rule: &'static str,
}

impl ContainerId {
    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InterfaceName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for InterfaceName {
    fn default() -> Self {
        Self("eth0".to_owned())
    }
}

/// Reports whether `text` is a valid name of a network or a container: it becomes part of file names.
pub(crate) fn is_cni_name(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

impl FromStr for ContainerId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_cni_name(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidName {
            what: "a pod's identity",
            value: text.chars().take(64).collect(),
            rule: "it must start with a letter or digit and contain only letters, digits, '_', '.' \
                   and '-'",
        })
    }
}

impl FromStr for InterfaceName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The kernel's dev_valid_name(); IFNAMSIZ is 16 with the final NUL.
        let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0';
        if (1..=15).contains(&text.len()) && text != "." && text != ".." && !text.contains(bad) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidName {
            what: "an interface name",
            value: text.chars().take(64).collect(),
            rule: "it must have 1 to 15 bytes and no '/', ':' or white space",
        })
    }
}

impl TryFrom<String> for ContainerId {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContainerId> for String {
    fn from(id: ContainerId) -> Self {
        id.0
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> Self {
        name.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_never_leave_their_directory() {
        for text in ["", "..", "../x", "a/b", "-x", ".x", "a b", "a\n", "\u{e9}"] {
            assert!(text.parse::<ContainerId>().is_err(), "{text:?}");
        }
        assert!("3a-b_c.d".parse::<ContainerId>().is_ok());
    }

    #[test]
    fn interface_names_follow_the_kernel() {
        for text in ["", ".", "..", "a/b", "a:1", "sixteen-bytes-xx", "a b"] {
            assert!(text.parse::<InterfaceName>().is_err(), "{text:?}");
        }
        assert!("eth0".parse::<InterfaceName>().is_ok());
    }
}
