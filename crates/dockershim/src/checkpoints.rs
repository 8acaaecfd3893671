//! The directory of sandbox checkpoints. Its file operations run outside the async reactor.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_fs::Outlives;

use crate::checkpoint::{Checkpoint, is_id};
use crate::error::{Error, Result};

/// The directory of checkpoints.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    dir: Arc<Path>,
}

/// The maximum size of a checkpoint file.
const LARGEST: u64 = 1 << 20;

impl Checkpoints {
    /// Opens the checkpoint directory below cri-dockerd's root directory. Blocks.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let dir = root.join("sandbox");
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir: dir.into() })
    }

    /// Writes a checkpoint atomically.
    pub(crate) async fn write(&self, id: &str, checkpoint: &Checkpoint) -> Result<()> {
        let doing = format!("writing the checkpoint of pod sandbox {id}");
        let (id, checkpoint) = (id.to_owned(), checkpoint.clone());
        self.blocking(doing, move |dir| write(dir, &id, &checkpoint))
            .await
    }

    /// Reads a checkpoint if it exists and is usable.
    pub(crate) async fn read(&self, id: &str) -> Option<Checkpoint> {
        let doing = format!("reading the checkpoint of pod sandbox {id}");
        let wanted = id.to_owned();
        self.blocking(doing, move |dir| read(dir, &wanted))
            .await
            .inspect_err(|error| {
                let error = crate::error::chain(&**error);
                tracing::warn!(sandbox = id, error, "cannot read a sandbox checkpoint");
            })
            .ok()
            .flatten()
    }

    /// Removes a checkpoint if it exists.
    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        let doing = format!("removing the checkpoint of pod sandbox {id}");
        let id = id.to_owned();
        self.blocking(doing, move |dir| remove(dir, &id)).await
    }

    /// Lists the ids of the sandboxes that have a checkpoint.
    pub(crate) async fn ids(&self) -> Result<Vec<String>> {
        self.blocking("listing the checkpoints".to_owned(), ids)
            .await
    }

    /// Reads the checkpoints that still exist of these sandboxes. An unusable checkpoint is removed, because every
    /// list would read it again.
    pub(crate) async fn read_all(&self, wanted: Vec<String>) -> Result<Vec<(String, Checkpoint)>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let reading = move |dir: &Path| {
            let one = |id: String| match read(dir, &id) {
                Ok(checkpoint) => Some((id, checkpoint?)),
                Err(error) => {
                    tracing::warn!(sandbox = id, %error, "removing an unreadable sandbox checkpoint");
                    let _ = remove(dir, &id);
                    None
                }
            };
            Ok(wanted.into_iter().filter_map(one).collect())
        };
        self.blocking("reading the checkpoints".to_owned(), reading)
            .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        doing: String,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let dir = Arc::clone(&self.dir);
        match orlop_pool::blocking(move || work(&dir)).await {
            Ok(done) => Ok(done.map_err(Error::io(doing))?),
            Err(_) => Err(Error::Internal(doing).into()),
        }
    }
}

fn write(dir: &Path, id: &str, checkpoint: &Checkpoint) -> io::Result<()> {
    let path = path(dir, id)?;
    let bytes = serde_json::to_vec(checkpoint)?;
    orlop_fs::write_file(&path, 0o666, Outlives::PowerCut, &bytes)
}

/// Reads a checkpoint; `None` if it does not exist. A damaged file is an error.
fn read(dir: &Path, id: &str) -> io::Result<Option<Checkpoint>> {
    let path = path(dir, id)?;
    let text = match orlop_fs::read_file(&path, LARGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Checkpoint::read(&text).map(Some).map_err(|problem| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a valid checkpoint: {problem}", path.display()),
        )
    })
}

fn remove(dir: &Path, id: &str) -> io::Result<()> {
    match std::fs::remove_file(path(dir, id)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn ids(dir: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        if let Ok(name) = entry?.file_name().into_string()
            && is_id(&name)
        {
            ids.push(name);
        }
    }
    ids.sort();
    Ok(ids)
}

fn path(dir: &Path, id: &str) -> io::Result<PathBuf> {
    if is_id(id) {
        return Ok(dir.join(id));
    }
    let problem = format!("{id:?} is not a valid sandbox ID");
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAMAGED: &str =
        r#"{"version":"v1","name":"pod","namespace":"ns","data":{},"checksum":2305795929}"#;

    #[tokio::test]
    async fn damaged_files_are_told_from_missing_ones() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        let sandboxes = dir.path().join("sandbox");
        assert_eq!(read(&sandboxes, "abc").unwrap(), None);
        std::fs::write(sandboxes.join("abc"), DAMAGED).unwrap();
        let error = read(&sandboxes, "abc").unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
        assert_eq!(checkpoints.read("abc").await, None);

        let good = Checkpoint::of(&orlop_cri_api::v1::PodSandboxConfig::default());
        checkpoints.write("abc", &good).await.unwrap();
        assert_eq!(checkpoints.read("abc").await, Some(good.clone()));
        assert_eq!(checkpoints.ids().await.unwrap(), ["abc"]);
        std::fs::write(sandboxes.join("damaged"), DAMAGED).unwrap();
        let both = ["abc", "damaged", "none"].map(str::to_owned).into();
        let read = checkpoints.read_all(both).await.unwrap();
        assert_eq!(read, [("abc".to_owned(), good)]);
        assert_eq!(checkpoints.ids().await.unwrap(), ["abc"], "only the good");
        checkpoints.remove("abc").await.unwrap();
        checkpoints.remove("abc").await.unwrap();
        assert!(checkpoints.ids().await.unwrap().is_empty());
        assert!(checkpoints.remove("../x").await.is_err());
        assert!(checkpoints.remove(".x").await.is_err());
    }

    #[tokio::test]
    async fn nothing_is_left_of_what_could_not_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        // A directory of that name blocks the file.
        std::fs::create_dir(dir.path().join("sandbox/abc")).unwrap();
        let checkpoint = Checkpoint::of(&orlop_cri_api::v1::PodSandboxConfig::default());
        let error = checkpoints.write("abc", &checkpoint).await.unwrap_err();
        assert!(error.to_string().contains("checkpoint"), "{error}");
        let left = std::fs::read_dir(dir.path().join("sandbox")).unwrap();
        assert_eq!(left.count(), 1);
    }
}
