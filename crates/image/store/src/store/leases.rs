//! Leases on layers, stored as one small file each.
//!
//! Requests take and release leases, so this must not wait for a sync to disk. No sync is necessary: a lease must
//! survive a killed daemon, and written data does. A power cut ends the containers that leases are for, so a lease
//! that is lost or reappears does no harm.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use orlop_fs::Outlives;

use super::LeaseRecord;
use crate::{Error, Result};

/// Prefix of the names of incomplete files.
const UNFINISHED: &str = ".";

/// The directory of leases.
#[derive(Debug)]
pub(super) struct Leases(PathBuf);

impl Leases {
    /// Creates the directory if it is missing, and reads its leases.
    pub(super) fn open(dir: PathBuf) -> Result<(Self, BTreeMap<String, LeaseRecord>)> {
        fs::create_dir_all(&dir).map_err(|error| Error::at("creating", &dir, error))?;
        let leases = Self(dir);
        let found = leases
            .read_all()
            .map_err(|error| Error::at("reading", &leases.0, error))?;
        Ok((leases, found))
    }

    fn read_all(&self) -> io::Result<BTreeMap<String, LeaseRecord>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // A lease that cannot be read now may still be in use.
            let text = orlop_fs::read_file(&path, orlop_fs::SMALL_FILE).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            let record = serde_json::from_slice(&text).ok();
            match (owner_of(&name), record) {
                (Some(owner), Some(record)) => drop(found.insert(owner, record)),
                // Never granted, or torn by a power cut.
                _ => fs::remove_file(&path)?,
            }
        }
        Ok(found)
    }

    /// Writes a lease, or removes it if `record` is `None`.
    pub(super) fn put(&self, owner: &str, record: Option<&LeaseRecord>) -> Result<()> {
        let doing = format!("writing the lease of {owner} below");
        self.write(owner, record)
            .map_err(|error| Error::at(&doing, &self.0, error))
    }

    fn write(&self, owner: &str, record: Option<&LeaseRecord>) -> io::Result<()> {
        let name = name_of(owner);
        let path = self.0.join(&name);
        let Some(record) = record else {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let text = serde_json::to_vec(record).map_err(io::Error::other)?;
        orlop_fs::write_file(&path, 0o644, Outlives::Kill, &text)
    }
}

/// Encodes an owner as a file name: `%`, `/` and `.` are percent-encoded.
fn name_of(owner: &str) -> String {
    owner
        .replace('%', "%25")
        .replace('/', "%2f")
        .replace('.', "%2e")
}

fn owner_of(name: &str) -> Option<String> {
    let plain = !name.starts_with(UNFINISHED);
    plain.then(|| {
        name.replace("%2e", ".")
            .replace("%2f", "/")
            .replace("%25", "%")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    fn record(byte: u8) -> LeaseRecord {
        let digest = Digest::of(&[byte]);
        LeaseRecord {
            image: digest,
            layers: vec![digest],
        }
    }

    #[test]
    fn leases_are_read_back_and_torn_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("leases");
        let (leases, found) = Leases::open(dir.clone()).unwrap();
        assert!(found.is_empty());
        let owners = ["a", "a/0", "../b", "50%2f"];
        for owner in owners {
            leases.put(owner, Some(&record(1))).unwrap();
            leases.put(owner, Some(&record(2))).unwrap();
        }
        leases.put("a", None).unwrap();
        leases.put("a", None).unwrap();
        fs::write(dir.join("torn"), b"{\"image\"").unwrap();
        fs::write(dir.join(".unfinished"), b"").unwrap();
        let (_, found) = Leases::open(dir.clone()).unwrap();
        let expected: BTreeMap<_, _> = owners[1..]
            .iter()
            .map(|owner| ((*owner).to_owned(), record(2)))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 3);
    }

    #[test]
    fn a_lease_that_cannot_be_read_now_is_not_taken_for_torn() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("leases");
        let (leases, _) = Leases::open(dir.clone()).unwrap();
        leases.put("a", Some(&record(1))).unwrap();
        // Reading a circular link fails like reading from a bad disk.
        std::os::unix::fs::symlink("circle", dir.join("circle")).unwrap();
        let refused = format!("{:?}", Leases::open(dir.clone()).unwrap_err());
        assert!(refused.contains("circle"), "{refused}");
        assert!(dir.join("circle").is_symlink());
    }

    #[test]
    fn a_lease_that_could_not_be_put_in_place_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("leases");
        let (leases, _) = Leases::open(dir.clone()).unwrap();
        fs::create_dir(dir.join("a")).unwrap();
        leases.put("a", Some(&record(1))).unwrap_err();
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
    }
}
