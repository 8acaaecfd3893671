//! Directories of the sandboxes, one each.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_fs::{Outlives, SMALL_FILE, write_file};
use tonic::Status;

use crate::names::checked;
use crate::shim::Shim;

/// The sandboxes created for a containerd.
#[derive(Clone, Debug)]
pub struct Sandboxes {
    dir: Arc<Path>,
    owner: Arc<str>,
}

impl Sandboxes {
    /// Opens the sandboxes below a directory that no other process uses.
    pub fn new(dir: &Path) -> Self {
        Self {
            owner: dir.to_string_lossy().into(),
            dir: dir.into(),
        }
    }

    pub(crate) fn get(&self, namespace: &str, id: &str) -> Result<Sandbox, Status> {
        let dir = self.dir.join(checked(namespace)?).join(checked(id)?);
        Ok(Sandbox {
            dir,
            namespace: namespace.to_owned(),
            id: id.to_owned(),
            owner: Arc::clone(&self.owner),
        })
    }
}

/// A sandbox, which may not exist.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) dir: PathBuf,
    namespace: String,
    pub(crate) id: String,
    owner: Arc<str>,
}

impl Sandbox {
    pub(crate) fn shim(&self) -> Shim<'_> {
        Shim {
            dir: &self.dir,
            namespace: &self.namespace,
            id: &self.id,
            owner: &self.owner,
        }
    }

    /// Creates its directory; an existing one is an error.
    pub(crate) fn make(&self) -> Result<(), Status> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        if let Some(above) = self.dir.parent() {
            let made = builder.recursive(true).create(above);
            made.map_err(|error| self.failed("creating the parent directory of", &error))?;
        }
        match builder.recursive(false).create(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(
                Status::already_exists(format!("sandbox {} already exists", self.id)),
            ),
            made => made.map_err(|error| self.failed("creating", &error)),
        }?;
        // The log contains the shim's messages.
        let log = std::fs::File::create(self.dir.join("log"));
        log.map(drop)
            .map_err(|error| self.failed("creating the log in", &error))
    }

    pub(crate) fn note(&self, socket: &str) -> Result<(), Status> {
        let path = self.dir.join("socket");
        let noted = write_file(&path, 0o600, Outlives::Kill, socket.as_bytes());
        noted.map_err(|error| self.failed("writing the address of the shim's socket to", &error))
    }

    /// Returns the path of its shim's socket.
    pub(crate) fn socket(&self) -> Result<PathBuf, Status> {
        let noted = orlop_fs::read_text(self.dir.join("socket"), SMALL_FILE);
        noted
            .map(PathBuf::from)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Status::not_found(format!("sandbox {} not found", self.id))
                }
                _ => self.failed("reading the shim's socket from", &error),
            })
    }

    pub(crate) fn remove(&self) -> Result<(), Status> {
        let removed = orlop_fs::remove_tree(&self.dir);
        removed.map_err(|error| self.failed("removing", &error))
    }

    fn failed(&self, doing: &str, error: &io::Error) -> Status {
        Status::internal(format!("{doing} {}: {error}", self.dir.display()))
    }
}
