//! Errors and warnings about manifests.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The severity of a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The object is not used.
    Error,
    /// The object is used, but a part is ignored or behaves differently than in a cluster.
    Warning,
}

/// An error or warning about a manifest, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The file or URL.
    pub origin: String,
    /// The line number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The object, such as `Pod default/web`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The severity.
    pub weight: Weight,
    /// The message.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let weight = match self.weight {
            Weight::Error => "error",
            Weight::Warning => "warning",
        };
        write!(f, ": {weight}: ")?;
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        f.write_str(&self.text)
    }
}
