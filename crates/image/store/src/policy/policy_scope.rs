//! The namespace whose policy applies to an image.

use std::sync::Arc;

use super::document::Policy;
use super::files::PolicyFiles;
use crate::Result;
use crate::blocking::blocking;

/// The policy that decides on a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyFor {
    /// The policy for the pods of a namespace; the node's own if the name is empty.
    Namespace(String),
    /// No policy: a repair pulls an image that is stored already and is checked when it is used.
    Repair,
}

impl Default for PolicyFor {
    fn default() -> Self {
        Self::Namespace(String::new())
    }
}

impl PolicyFor {
    /// Returns the namespace; empty if there is none.
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Namespace(namespace) => namespace,
            Self::Repair => "",
        }
    }

    /// Reads the current policy.
    pub(crate) async fn read(&self, files: &PolicyFiles) -> Result<Option<Arc<Policy>>> {
        match self {
            Self::Namespace(namespace) if !files.is_empty() => {
                let (files, namespace) = (files.clone(), namespace.clone());
                blocking(move || files.read(&namespace)).await
            }
            _ => Ok(None),
        }
    }
}
