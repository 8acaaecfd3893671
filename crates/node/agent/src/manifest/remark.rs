//! What is remarked on a manifest, with its place.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a remark weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The object is not used.
    Error,
    /// The object is used, but not all of it, or not as a cluster would.
    Warning,
}

/// Something about a manifest: where, and what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The file or URL.
    pub origin: String,
    /// The line in it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What it is about, as `Pod default/web`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// How much it weighs.
    pub weight: Weight,
    /// The sentence.
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
