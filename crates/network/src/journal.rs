//! Journal of attachments, written before each attachment is made.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use orlop_fs::Outlives;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttachedNetwork, Attachment, ContainerId, Error, PodNetwork};

/// A directory with one set of files per pod.
///
/// The file `ID.intent` exists from before the first ADD until after the last DEL. `ID.done` holds the result of a
/// finished ADD. `ID.N.partial` holds the first plugin's result on network number N during ADD. If ADD ended early,
/// `ID.N.ran` holds the number of plugins of that network that ran.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
}

/// The journal's record of one pod's attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The requested attachment.
    pub attachment: Attachment,
    /// The networks chosen for the pod.
    pub networks: Vec<AttachedNetwork>,
    /// Device and inode of the namespace, because paths can be reused.
    netns_identity: Option<(u64, u64)>,
    /// The pod's network; `None` until ADD is finished.
    #[serde(skip)]
    pub result: Option<PodNetwork>,
}

impl JournalEntry {
    /// Creates an intent to attach a pod to networks.
    pub(crate) fn new(attachment: Attachment, networks: Vec<AttachedNetwork>) -> Self {
        let netns_identity = identity(&attachment.netns);
        Self {
            attachment,
            networks,
            netns_identity,
            result: None,
        }
    }

    /// Reports whether the path still leads to the pod's namespace.
    pub(crate) fn namespace_is_the_same(&self) -> bool {
        self.netns_identity.is_some() && self.netns_identity == identity(&self.attachment.netns)
    }
}

impl Journal {
    pub(crate) fn open(state_dir: &Path) -> Result<Self, Error> {
        let dir = state_dir.join("attachments");
        std::fs::create_dir_all(&dir).map_err(|source| failed("create", &dir, source))?;
        orlop_fs::remove_drafts(&dir)
            .map_err(|source| failed("remove temporary files from", &dir, source))?;
        Ok(Self { dir })
    }

    pub(crate) fn get(&self, id: &ContainerId) -> Option<JournalEntry> {
        self.known(id).ok().flatten()
    }

    /// Returns the entry of a pod; fails if the entry cannot be read.
    pub(crate) fn known(&self, id: &ContainerId) -> Result<Option<JournalEntry>, Error> {
        let intent = self.intent(id);
        let read_entry = || -> io::Result<JournalEntry> {
            let bytes = orlop_fs::read_file(&intent, orlop_fs::SMALL_FILE)?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        let mut entry = match read_entry() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| failed("read", &intent, source))?,
        };
        entry.result = read(&self.done(id));
        for (index, network) in entry.networks.iter_mut().enumerate() {
            network.result = read(&self.partial(id, index));
            network.ran = read(&self.ran(id, index));
        }
        Ok(Some(entry))
    }

    pub(crate) fn begin(&self, entry: &JournalEntry) -> Result<(), Error> {
        write(&self.intent(&entry.attachment.id), entry)
    }

    pub(crate) fn finish(&self, id: &ContainerId, result: &PodNetwork) -> Result<(), Error> {
        write(&self.done(id), result)
    }

    /// Records the result of the first plugins of a network's chain. DEL passes it to the other plugins if ADD is
    /// interrupted.
    pub(crate) fn note_partial(
        &self,
        id: &ContainerId,
        index: usize,
        result: &Value,
    ) -> Result<(), Error> {
        write(&self.partial(id, index), result)
    }

    /// Records that only the first plugins of a network's chain ran.
    pub(crate) fn note_ran(
        &self,
        id: &ContainerId,
        index: usize,
        count: usize,
    ) -> Result<(), Error> {
        write(&self.ran(id, index), &count)
    }

    /// Removes a pod's files, the intent last. After a crash in between, the pod is detached once more.
    pub(crate) fn forget(&self, id: &ContainerId, networks: usize) -> Result<(), Error> {
        let partial =
            (0..networks).flat_map(|index| [self.partial(id, index), self.ran(id, index)]);
        for path in partial.chain([self.done(id), self.intent(id)]) {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done.map_err(|source| failed("remove", &path, source))?,
            }
        }
        Ok(())
    }

    /// Lists all pods with an entry.
    pub(crate) fn ids(&self) -> Result<Vec<ContainerId>, Error> {
        let list = || {
            let mut ids: Vec<ContainerId> = Vec::new();
            for entry in std::fs::read_dir(&self.dir)? {
                let name = entry?.file_name();
                let id = name.to_str().and_then(|name| name.strip_suffix(".intent"));
                ids.extend(id.and_then(|id| id.parse().ok()));
            }
            io::Result::Ok(ids)
        };
        let mut ids = list().map_err(|source| failed("list", &self.dir, source))?;
        ids.sort();
        Ok(ids)
    }

    fn intent(&self, id: &ContainerId) -> PathBuf {
        self.dir.join(format!("{id}.intent"))
    }

    fn partial(&self, id: &ContainerId, index: usize) -> PathBuf {
        self.dir.join(format!("{id}.{index}.partial"))
    }

    fn ran(&self, id: &ContainerId, index: usize) -> PathBuf {
        self.dir.join(format!("{id}.{index}.ran"))
    }

    fn done(&self, id: &ContainerId) -> PathBuf {
        self.dir.join(format!("{id}.done"))
    }
}

/// Writes a file atomically. No file is written twice: a rename over an old file would make a disk file system flush.
fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    serde_json::to_vec(value)
        .map_err(io::Error::other)
        .and_then(|bytes| orlop_fs::write_file(path, 0o644, Outlives::Kill, &bytes))
        .map_err(|source| failed("write", path, source))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&orlop_fs::read_file(path, orlop_fs::SMALL_FILE).ok()?).ok()
}

fn identity(netns: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(netns).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_from_intent_to_forgetting() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let pod = Attachment::new("pod1".parse().unwrap(), "/proc/self/ns/net");
        let entry = JournalEntry::new(pod.clone(), Vec::new());
        journal.begin(&entry).unwrap();
        assert_eq!(journal.get(&pod.id), Some(entry.clone()));
        assert!(entry.namespace_is_the_same());

        let result = PodNetwork::gather(Vec::new(), &[], crate::IpPreference::Cni);
        journal.finish(&pod.id, &result).unwrap();
        // A new process must read the same.
        let journal = Journal::open(dir.path()).unwrap();
        assert_eq!(journal.ids().unwrap(), std::slice::from_ref(&pod.id));
        assert_eq!(journal.get(&pod.id).unwrap().result, Some(result));

        journal.forget(&pod.id, 1).unwrap();
        journal.forget(&pod.id, 1).unwrap();
        assert_eq!(
            (journal.ids().unwrap(), journal.get(&pod.id)),
            (Vec::new(), None)
        );
    }

    #[test]
    fn a_draft_of_a_killed_process_goes_with_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let pod = Attachment::new("pod1".parse().unwrap(), "/proc/self/ns/net");
        let entry = JournalEntry::new(pod.clone(), Vec::new());
        journal.begin(&entry).unwrap();
        std::fs::write(journal.dir.join("pod1.done.new"), "{").unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let left = std::fs::read_dir(&journal.dir).unwrap().flatten();
        let names: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["pod1.intent"]);
    }

    #[test]
    fn what_could_not_be_put_in_place_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let pod = Attachment::new("pod1".parse().unwrap(), "/proc/self/ns/net");
        std::fs::create_dir(journal.done(&pod.id)).unwrap();
        let result = PodNetwork::gather(Vec::new(), &[], crate::IpPreference::Cni);
        journal.finish(&pod.id, &result).unwrap_err();
        let drafts = std::fs::read_dir(&journal.dir).unwrap().flatten();
        let mut names = drafts.map(|entry| entry.file_name().into_string().unwrap());
        assert!(!names.any(|name| name.rsplit_once('.').is_some_and(|(_, end)| end == "new")));
    }
}
