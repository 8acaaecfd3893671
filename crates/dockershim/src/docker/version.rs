//! Versions of the engine's API.

use std::fmt;
use std::str::FromStr;

use super::error::{DockerError, Result};

/// A version of the engine's API: `1.41`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ApiVersion {
    major: u16,
    minor: u16,
}

impl ApiVersion {
    /// The oldest supported version (Docker 20.10).
    pub(crate) const OLDEST: Self = Self::new(1, 41);
    /// The newest known version (Docker 29).
    pub(crate) const NEWEST: Self = Self::new(1, 56);
    /// The first version that can choose whether read-only mounts are recursive.
    pub(crate) const RECURSIVE_READ_ONLY: Self = Self::new(1, 44);
    /// The first version with image mounts.
    pub(crate) const IMAGE_MOUNTS: Self = Self::new(1, 48);
    /// The first version whose `/system/df` can report images alone.
    pub(crate) const USAGE_BY_TYPE: Self = Self::new(1, 42);

    /// Creates a version.
    pub(crate) const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Negotiates the version for an engine that supports `oldest` to `newest`.
    pub(crate) fn agreed(oldest: Option<Self>, newest: Self) -> Result<Self> {
        if newest < Self::OLDEST {
            return Err(DockerError::Version(format!(
                "the Docker Engine supports API version {newest} at most, but orlop requires {} \
                 (Docker 20.10); update the engine",
                Self::OLDEST
            )));
        }
        if let Some(oldest) = oldest.filter(|oldest| *oldest > Self::NEWEST) {
            return Err(DockerError::Version(format!(
                "the Docker Engine requires API version {oldest} at least, but orlop supports {} \
                 at most; update orlop",
                Self::NEWEST
            )));
        }
        Ok(newest.min(Self::NEWEST))
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ApiVersion {
    type Err = DockerError;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split_once('.')
            .and_then(|(major, minor)| Some(Self::new(major.parse().ok()?, minor.parse().ok()?)));
        parts.ok_or_else(|| {
            DockerError::Version(format!(
                "the Docker Engine's API version {text:?} is not a valid version"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        let version = |text: &str| text.parse::<ApiVersion>().unwrap();
        let agreed = |oldest: &str, newest: &str| {
            ApiVersion::agreed(Some(version(oldest)), version(newest))
                .map(|agreed| agreed.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(agreed("1.12", "1.41").unwrap(), "1.41");
        assert_eq!(agreed("1.44", "1.60").unwrap(), "1.56");
        assert!(
            agreed("1.12", "1.40")
                .unwrap_err()
                .contains("update the engine")
        );
        assert!(agreed("1.60", "1.70").unwrap_err().contains("update orlop"));
        assert!("x".parse::<ApiVersion>().is_err());
        assert!(version("1.9") < version("1.10"));
    }
}
