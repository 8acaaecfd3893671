//! The last valid version of each text, on disk.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use orlop_fs::Outlives;
use serde::{Deserialize, Serialize};

/// Size limit of a kept file in bytes: as JSON, each byte of a text can take six.
pub(super) const LARGEST_KEPT: u64 = 64 << 20;

/// A directory with one file for each text. Only root can read it, because manifests may contain
/// secrets.
#[derive(Debug, Clone)]
pub(crate) struct LastGood {
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    origin: String,
    text: String,
}

fn read(path: &Path) -> Option<Record> {
    let bytes = match orlop_fs::read_file(path, LARGEST_KEPT) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "skipped the copy of a manifest because it cannot be read; remove the file");
            return None;
        }
        Ok(bytes) => bytes,
    };
    serde_json::from_slice(&bytes).ok()
}

impl LastGood {
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        Ok(Self { directory })
    }

    /// Returns the last valid text of an origin.
    pub(super) fn get(&self, origin: &str) -> Option<String> {
        let record = read(&self.path(origin))?;
        (record.origin == origin).then_some(record.text)
    }

    /// Saves a text. A failure is only logged; it matters only if the text becomes invalid later.
    pub(super) fn put(&self, origin: &str, text: &str) {
        if self.get(origin).as_deref() == Some(text) {
            return;
        }
        let record = Record {
            origin: origin.to_owned(),
            text: text.to_owned(),
        };
        if let Err(error) = self.write(&record) {
            tracing::warn!(origin, %error, "cannot save a copy of a manifest");
        }
    }

    /// Removes the text of an origin.
    pub(super) fn remove(&self, origin: &str) {
        let _ = fs::remove_file(self.path(origin));
    }

    /// Lists the saved origins with this prefix.
    pub(super) fn origins(&self, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        entries
            .filter_map(|entry| read(&entry.ok()?.path()))
            .map(|record| record.origin)
            .filter(|origin| origin.starts_with(prefix))
            .collect()
    }

    fn write(&self, record: &Record) -> io::Result<()> {
        let path = self.path(&record.origin);
        orlop_fs::write_file(
            &path,
            0o600,
            Outlives::PowerCut,
            &serde_json::to_vec(record)?,
        )
    }

    fn path(&self, origin: &str) -> PathBuf {
        let sum = digest(&SHA256, origin.as_bytes());
        let name = orlop_text::hex::encode(&sum.as_ref()[..16]);
        self.directory.join(name + ".json")
    }
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    #[test]
    fn a_copy_that_is_none_is_passed_over() {
        let said = said_of_hostile_files("kept.json", |path| read(path).is_none().to_string());
        assert_eq!(said, ["true", "true"]);
    }
}
