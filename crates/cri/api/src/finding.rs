//! What an examination of a node has found.

use crate::inspection::{Finding, FindingLevel};

impl Finding {
    /// All is well.
    pub fn ok(area: &str, text: impl Into<String>) -> Self {
        Self::new(area, FindingLevel::Ok, text, "")
    }

    /// Something that some pods may need is missing.
    pub fn warning(area: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(area, FindingLevel::Warning, text, remedy)
    }

    /// Pods can't run, or something is broken.
    pub fn problem(area: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(area, FindingLevel::Problem, text, remedy)
    }

    fn new(
        area: &str,
        level: FindingLevel,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            area: area.to_owned(),
            level: level.into(),
            text: text.into(),
            remedy: remedy.into(),
            repaired: false,
        }
    }
}
