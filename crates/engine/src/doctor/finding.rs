//! What a check has found.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is well.
    Ok,
    /// Something is missing that some pods may need.
    Warning,
    /// Pods can't run, or something is broken.
    Problem,
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: `kernel`, `cgroups`, `orphans` …
    pub area: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do about it; empty where all is well.
    pub remedy: String,
    /// It has been mended.
    pub repaired: bool,
}

impl Finding {
    /// All is well.
    pub fn ok(area: &'static str, text: impl Into<String>) -> Self {
        Self::new(area, Level::Ok, text, "")
    }

    /// Something that some pods may need is missing.
    pub fn warning(area: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(area, Level::Warning, text, remedy)
    }

    /// Pods can't run, or something is broken.
    pub fn problem(area: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(area, Level::Problem, text, remedy)
    }

    fn new(
        area: &'static str,
        level: Level,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            area,
            level,
            text: text.into(),
            remedy: remedy.into(),
            repaired: false,
        }
    }
}
