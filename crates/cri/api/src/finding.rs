//! Findings of a node check.

use crate::inspection::{Finding, FindingLevel};

impl Finding {
    /// Creates a finding without a problem.
    pub fn ok(area: &str, text: impl Into<String>) -> Self {
        Self::new(area, FindingLevel::Ok, text, "")
    }

    /// Creates a finding about something missing that some pods may need.
    pub fn warning(area: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(area, FindingLevel::Warning, text, remedy)
    }

    /// Creates a finding about a fault, for example one that prevents pods from running.
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
