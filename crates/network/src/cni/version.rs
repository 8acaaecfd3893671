//! Versions of the CNI specification.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A version of the CNI specification that this crate supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpecVersion {
    /// 0.1.0: results with `ip4` and `ip6`; read only.
    V0_1_0,
    /// 0.2.0: same as 0.1.0.
    V0_2_0,
    /// 0.3.0: adds lists of addresses and chains of plugins.
    V0_3_0,
    /// 0.3.1: same as 0.3.0.
    V0_3_1,
    /// 0.4.0: adds CHECK.
    V0_4_0,
    /// 1.0.0: removes `version` from addresses.
    V1_0_0,
    /// 1.1.0: adds STATUS, GC and more fields in results.
    V1_1_0,
}

/// A version that this crate does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("CNI version {0:?} is not supported; use 0.1.0 to 1.1.0")]
pub struct UnknownVersion(String);

const NAMES: [(SpecVersion, &str); 7] = [
    (SpecVersion::V0_1_0, "0.1.0"),
    (SpecVersion::V0_2_0, "0.2.0"),
    (SpecVersion::V0_3_0, "0.3.0"),
    (SpecVersion::V0_3_1, "0.3.1"),
    (SpecVersion::V0_4_0, "0.4.0"),
    (SpecVersion::V1_0_0, "1.0.0"),
    (SpecVersion::V1_1_0, "1.1.0"),
];

impl SpecVersion {
    /// Returns the version as written in configurations.
    pub fn as_str(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl FromStr for SpecVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NAMES
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(version, _)| *version)
            .ok_or_else(|| UnknownVersion(text.chars().take(32).collect()))
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for SpecVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SpecVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order() {
        for (version, name) in NAMES {
            assert_eq!(name.parse::<SpecVersion>(), Ok(version));
            assert_eq!(version.as_str(), name);
        }
        assert!(SpecVersion::V0_4_0 < SpecVersion::V1_0_0);
        assert!("2.0.0".parse::<SpecVersion>().is_err());
    }
}
