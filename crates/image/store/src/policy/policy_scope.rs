//! The namespace whose policy applies to an image.

use std::sync::Arc;

use super::document::Policy;
use super::files::PolicyFiles;
use crate::Result;
use crate::blocking::blocking;

/// Whose policy decides on a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyFor {
    /// That of the pods of a namespace; the node's own if the name is empty.
    Namespace(String),
    /// Nobody's: what is pulled is here already, and is judged when it is used.
    Repair,
}

impl Default for PolicyFor {
    fn default() -> Self {
        Self::Namespace(String::new())
    }
}

impl PolicyFor {
    /// The namespace whose pods are meant; empty for nobody's.
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Namespace(namespace) => namespace,
            Self::Repair => "",
        }
    }

    /// The policy as it is now.
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
