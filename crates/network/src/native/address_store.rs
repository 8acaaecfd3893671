//! A network's directory of reserved addresses: one file per address, named by the address, with the owner inside.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use orlop_fs::Outlives;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::error::NativeError;

/// The directory, locked against all other users.
pub(super) struct Store {
    dir: PathBuf,
    owners: Owners,
    _lock: File,
}

/// Container and interface by address; files of old versions name no interface.
type Owners = BTreeMap<IpAddr, (String, String)>;

/// The contents of each directory at its release, with the time of its last change. If no other program changed it,
/// its files need not be read again.
static KNOWN: Mutex<BTreeMap<PathBuf, (Changed, Owners)>> = Mutex::new(BTreeMap::new());

/// Time of a directory's last change, in seconds and nanoseconds, and its inode.
type Changed = (i64, i64, u64);

impl Store {
    pub(super) fn open(dir: PathBuf) -> io::Result<Self> {
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(dir.join("lock"))
        };
        let lock = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&dir).and_then(|()| open())
            }
            opened => opened,
        }?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let known = KNOWN.lock().remove(&dir);
        let owners = match known {
            Some((changed, owners)) if changed == last_change(&dir)? => owners,
            _ => read_all(&dir)?,
        };
        Ok(Self {
            dir,
            owners,
            _lock: lock,
        })
    }

    /// Reserves an address; returns `false` if it is taken.
    pub(super) fn reserve(
        &mut self,
        id: &str,
        if_name: &str,
        address: IpAddr,
        range_set: usize,
    ) -> Result<bool, NativeError> {
        if self.owners.contains_key(&address) {
            return Ok(false);
        }
        let path = self.path(address);
        // The file gets its name when it is complete. A torn file would have no owner, and would block its address
        // for ever.
        let reserved = format!("{id}\r\n{if_name}");
        match orlop_fs::write_new_file(&path, 0o644, Outlives::Kill, reserved.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(false);
            }
            done => done.map_err(NativeError::system(format!("reserve {}", path.display())))?,
        }
        self.owners
            .insert(address, (id.to_owned(), if_name.to_owned()));
        // A failure here only affects the order of addresses.
        let _ = std::fs::write(self.last_reserved_file(range_set), address.to_string());
        Ok(true)
    }

    pub(super) fn release(&mut self, address: IpAddr) {
        match std::fs::remove_file(self.path(address)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%address, %error, "cannot release an address");
            }
            _ => {
                self.owners.remove(&address);
            }
        }
    }

    /// Returns the addresses of an attachment.
    pub(super) fn held_by(&self, id: &str, if_name: &str) -> Vec<IpAddr> {
        let of = |wanted: &str| {
            self.owners
                .iter()
                .filter(|(_, (owner, interface))| owner == id && interface == wanted)
                .map(|(address, _)| *address)
                .collect::<Vec<_>>()
        };
        let held = of(if_name);
        if held.is_empty() { of("") } else { held }
    }

    /// Returns all addresses with their container and interface.
    pub(super) fn all(&self) -> Vec<(IpAddr, String, String)> {
        let owned = self.owners.iter();
        owned
            .map(|(address, (id, name))| (*address, id.clone(), name.clone()))
            .collect()
    }

    /// Returns the last address given from a range set.
    pub(super) fn last_reserved(&self, range_set: usize) -> Option<IpAddr> {
        let text =
            orlop_fs::read_text(self.last_reserved_file(range_set), orlop_fs::SMALL_FILE).ok()?;
        text.trim().parse().ok()
    }

    fn path(&self, address: IpAddr) -> PathBuf {
        self.dir.join(address.to_string())
    }

    fn last_reserved_file(&self, range_set: usize) -> PathBuf {
        self.dir.join(format!("last_reserved_ip.{range_set}"))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Ok(changed) = last_change(&self.dir) {
            let owners = std::mem::take(&mut self.owners);
            let mut known = KNOWN.lock();
            known.insert(self.dir.clone(), (changed, owners));
        }
    }
}

/// Reads all reservations, and removes those that a power cut has emptied. Nobody could release them, because they
/// name no owner; the lock excludes a writer.
fn read_all(dir: &Path) -> io::Result<Owners> {
    let mut owners = Owners::new();
    orlop_fs::remove_drafts(dir)?;
    for entry in std::fs::read_dir(dir)?.flatten() {
        let name = entry.file_name();
        let Some(address) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(text) = orlop_fs::read_text(entry.path(), orlop_fs::SMALL_FILE) else {
            continue;
        };
        // A container ID, and an interface on a second line. File systems fill lost data with zeros.
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        let mut lines = text.lines().map(|line| line.trim().to_owned());
        let id = lines.next().unwrap_or_default();
        if id.is_empty() {
            tracing::warn!(%address, "releasing an address that has no owner");
            std::fs::remove_file(entry.path())?;
            continue;
        }
        owners.insert(address, (id, lines.next().unwrap_or_default()));
    }
    Ok(owners)
}

fn last_change(dir: &Path) -> io::Result<Changed> {
    let metadata = std::fs::metadata(dir)?;
    Ok((metadata.mtime(), metadata.mtime_nsec(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_reserve_and_release_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let network = dir.path().join("net");
        let open = || Store::open(network.clone()).unwrap();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert!(open().reserve("a", "eth0", address(2), 0).unwrap());
        assert!(!open().reserve("b", "eth0", address(2), 0).unwrap());
        assert_eq!(open().held_by("a", "eth0"), [address(2)]);
        assert_eq!(
            std::fs::read_to_string(network.join("10.0.0.2")).unwrap(),
            "a\r\neth0"
        );

        // Ensures that a later change has a later time.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(network.join("10.0.0.3"), "other\r\neth1").unwrap();
        std::fs::remove_file(network.join("10.0.0.2")).unwrap();
        let mut store = open();
        assert_eq!(store.held_by("a", "eth0"), Vec::<IpAddr>::new());
        assert_eq!(store.held_by("other", "eth1"), [address(3)]);
        assert!(!store.reserve("b", "eth0", address(3), 0).unwrap());
        assert!(store.reserve("b", "eth0", address(2), 0).unwrap());
        assert_eq!(store.last_reserved(0), Some(address(2)));
    }

    #[test]
    fn an_address_whose_reservation_a_power_cut_has_emptied_is_free_again() {
        let dir = tempfile::tempdir().unwrap();
        let network = dir.path().join("net");
        std::fs::create_dir(&network).unwrap();
        for (name, content) in [
            ("10.0.0.2", ""),
            ("10.0.0.3", "\0\0\0"),
            ("10.0.0.4", "a\r\n"),
        ] {
            std::fs::write(network.join(name), content).unwrap();
        }
        let mut store = Store::open(network.clone()).unwrap();
        let owner = (IpAddr::from([10, 0, 0, 4]), "a".to_owned(), String::new());
        assert_eq!(store.all(), [owner]);
        assert!(!network.join("10.0.0.3").exists());
        let free = IpAddr::from([10, 0, 0, 2]);
        assert!(store.reserve("b", "eth0", free, 0).unwrap());
    }
}
