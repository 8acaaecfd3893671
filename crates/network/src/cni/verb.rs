//! The commands of a CNI plugin.

use std::fmt;

/// A `CNI_COMMAND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Attach a pod.
    Add,
    /// Detach a pod.
    Del,
    /// Verify an attachment.
    Check,
    /// Report whether ADD would work.
    Status,
    /// Release resources that belong to no valid attachment.
    Gc,
}

impl Verb {
    /// Returns the command as plugins read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Status => "STATUS",
            Self::Gc => "GC",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
