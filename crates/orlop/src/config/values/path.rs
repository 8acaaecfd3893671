//! Absolute paths, which do not depend on the daemon's working directory.

use std::fmt;
use std::ops::Deref;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::text::text_value;

/// An absolute path without `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AbsolutePath(PathBuf);

impl FromStr for AbsolutePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        if !path.is_absolute() {
            return Err(format!("{text:?} must be an absolute path"));
        }
        if path.components().any(|part| part == Component::ParentDir) || text.contains('\0') {
            return Err(format!("{text:?} must not contain `..`"));
        }
        Ok(Self(path.components().collect()))
    }
}

impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Deref for AbsolutePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

text_value!(AbsolutePath, "path");
