//! Policy files: one for the node, and one for each pod namespace that has its own. They are read again each time, so
//! that a change needs no restart.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Policy;
use crate::namespace::{is_plain, shown};
use crate::{Error, Result};

/// Maximum size of a policy.
const MAX_FILE: u64 = 4 << 20;

/// Locations of the policies of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyFiles {
    /// The node's own policy.
    pub node: Option<PathBuf>,
    /// A directory with `NAMESPACE.json` for pod namespaces with a policy of their own.
    pub namespaces: Option<PathBuf>,
}

impl PolicyFiles {
    /// Returns whether no policies are configured.
    pub fn is_empty(&self) -> bool {
        self.node.is_none() && self.namespaces.is_none()
    }

    /// Returns the policy for the pods of a namespace, which replaces the node's policy. An empty name selects the
    /// node's policy. Blocks.
    pub fn read(&self, namespace: &str) -> Result<Option<Arc<Policy>>> {
        if let Some(dir) = self.namespaces.as_ref().filter(|_| !namespace.is_empty()) {
            let file = dir.join(format!("{}.json", checked(dir, namespace)?));
            if let Some(policy) = read(&file)? {
                return Ok(Some(Arc::new(policy)));
            }
        }
        let Some(file) = &self.node else {
            return Ok(None);
        };
        let policy = read(file)?.ok_or_else(|| wrong(file, "the file does not exist"))?;
        Ok(Some(Arc::new(policy)))
    }

    /// Reads all policies with all of their keys. Returns the number of valid ones, and the errors of the others.
    /// Blocks.
    pub fn check(&self) -> (usize, Vec<Error>) {
        let (files, mut errors) = self.all();
        let mut right = 0;
        for file in files {
            match check(&file) {
                Ok(()) => right += 1,
                Err(error) => errors.push(error),
            }
        }
        (right, errors)
    }

    /// Returns warnings about scopes in valid policies that no image matches. Blocks.
    pub fn doubts(&self) -> Vec<Error> {
        let (files, _) = self.all();
        let policies = files
            .iter()
            .filter_map(|file| Some((file, read(file).ok()??)));
        let doubts = policies.flat_map(|(file, policy)| {
            let unused = policy.unused().into_iter();
            unused.map(move |reason| wrong(file, reason))
        });
        doubts.collect()
    }

    /// Returns all policy files, and errors of directories that cannot be read.
    fn all(&self) -> (Vec<PathBuf>, Vec<Error>) {
        let mut files: Vec<PathBuf> = self.node.iter().cloned().collect();
        let mut errors = Vec::new();
        if let Some(dir) = &self.namespaces {
            match listed(dir) {
                Ok(found) => files.extend(found),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => errors.push(wrong(dir, error)),
            }
        }
        (files, errors)
    }
}

/// Checks that a namespace is a valid file name, which cannot lead outside the directory.
fn checked<'n>(dir: &Path, namespace: &'n str) -> Result<&'n str> {
    if is_plain(namespace) {
        return Ok(namespace);
    }
    let shown = shown(namespace);
    Err(wrong(
        dir,
        format!("{shown:?} is not a valid namespace name"),
    ))
}

fn listed(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn check(file: &Path) -> Result<()> {
    let policy = read(file)?.ok_or_else(|| wrong(file, "the file does not exist"))?;
    policy.check().map_err(|reason| wrong(file, reason))
}

fn read(file: &Path) -> Result<Option<Policy>> {
    let text = match orlop_fs::read_file(file, MAX_FILE) {
        Ok(text) => text,
        // A dangling link is not the same as a missing file.
        Err(error)
            if error.kind() == ErrorKind::NotFound && std::fs::symlink_metadata(file).is_err() =>
        {
            return Ok(None);
        }
        Err(error) => return Err(wrong(file, error)),
    };
    let policy = Policy::parse(file, &text).map_err(|reason| wrong(file, reason))?;
    Ok(Some(policy))
}

fn wrong(path: &Path, reason: impl ToString) -> Error {
    Error::Policy {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}
