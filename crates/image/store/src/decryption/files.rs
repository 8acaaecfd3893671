//! Key files: finds them in directories, checks their permissions, and reads their passphrases.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_encryption::{KeyError, PrivateKey};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::key_scope::KeysOf;
use crate::digest::Hasher;
use crate::{Digest, Error, Result};

/// Maximum size of a key file.
const LARGEST_KEY: u64 = 64 << 10;
/// Maximum length of a passphrase.
const LONGEST_PASSPHRASE: u64 = 1 << 10;
/// Maximum number of key files in a directory.
const MOST_FILES: usize = 64;
/// Number of files whose keys are cached.
const MOST_DERIVED: usize = 256;
/// Suffix of the file with the passphrase of a key.
const PASSPHRASE: &str = ".passphrase";
/// Name of the file with a namespace's key providers.
const PROVIDERS: &str = "key-providers.json";

/// The keys of one file.
pub(super) type KeysOfFile = Arc<Vec<PrivateKey>>;

/// Cache of keys by a digest of their file and passphrase. Deriving a key from its passphrase may take seconds of CPU
/// time, and each container of an encrypted image needs the keys.
#[derive(Default)]
struct Derived(Mutex<VecDeque<(Digest, KeysOfFile)>>);

static DERIVED: Derived = Derived(Mutex::new(VecDeque::new()));

impl Derived {
    fn keys(&self, file: &[u8], passphrase: Option<&[u8]>) -> Result<KeysOfFile, KeyError> {
        let mut hasher = Hasher::like(None);
        for part in [Some(file), passphrase] {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(&length.to_le_bytes());
            hasher.update(part.unwrap_or_default());
        }
        let name = hasher.finish();
        {
            let mut derived = self.0.lock();
            let at = derived.iter().position(|(known, _)| *known == name);
            if let Some(found) = at.and_then(|at| derived.remove(at)) {
                let keys = Arc::clone(&found.1);
                derived.push_back(found);
                return Ok(keys);
            }
        }
        let keys = Arc::new(PrivateKey::all_of(file, passphrase)?);
        let mut derived = self.0.lock();
        if derived.len() == MOST_DERIVED {
            derived.pop_front();
        }
        derived.push_back((name, Arc::clone(&keys)));
        Ok(keys)
    }
}

/// Returns the directories with keys: the one for all pods, and those of the namespaces.
pub(super) fn directories(dir: &Path, whose: &KeysOf) -> Result<Vec<PathBuf>> {
    let mut dirs = vec![dir.to_owned()];
    match whose {
        KeysOf::Node => {}
        KeysOf::Namespace(name) => dirs.push(dir.join(name)),
        KeysOf::Everybody => {
            for entry in std::fs::read_dir(dir).map_err(|error| Error::keys(dir, error))? {
                let path = entry.map_err(|error| Error::keys(dir, error))?.path();
                if path.is_dir() {
                    dirs.push(path);
                }
            }
        }
    }
    Ok(dirs)
}

/// Reads all keys of a directory. An invalid key file is an error, because it may be the one that is needed.
pub(super) fn keys_in(dir: &Path) -> Result<Vec<KeysOfFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| Error::keys(dir, error))? {
        let path = entry.map_err(|error| Error::keys(dir, error))?.path();
        let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes);
        let is_other = name.is_some_and(|name| {
            name.starts_with(b".")
                || name.ends_with(PASSPHRASE.as_bytes())
                || name == PROVIDERS.as_bytes()
        });
        if is_other || path.is_dir() {
            continue;
        }
        if files.len() == MOST_FILES {
            return Err(Error::keys(
                dir,
                format!("it has more than {MOST_FILES} keys"),
            ));
        }
        files.push(path);
    }
    files.sort();
    let keys = files.iter().map(|path| keys_of(path));
    keys.collect()
}

/// Returns the key provider file of a namespace's directory, if it exists.
pub(super) fn providers_in(dir: &Path) -> Option<PathBuf> {
    let file = dir.join(PROVIDERS);
    // A dangling link fails when it is read.
    file.symlink_metadata().is_ok().then_some(file)
}

fn keys_of(path: &Path) -> Result<KeysOfFile> {
    let Some(key) = secret(path, LARGEST_KEY)? else {
        // The file was removed meanwhile.
        return Ok(Arc::default());
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(PASSPHRASE);
    let beside = PathBuf::from(beside);
    let passphrase = secret(&beside, LONGEST_PASSPHRASE)?;
    let passphrase = passphrase.as_ref().map(|text| one_line(text));
    DERIVED.keys(&key, passphrase).map_err(|error| match error {
        KeyError::NoPassphrase => {
            let place = beside.display();
            let reason = format!("it is protected by a passphrase; write the passphrase to {place}, readable only by the owner");
            Error::keys(path, reason)
        }
        KeyError::WrongPassphrase => {
            let reason = format!("the passphrase in {} is wrong", beside.display());
            Error::keys(path, format!("{reason}, or the key is damaged"))
        }
        error => Error::keys(path, error),
    })
}

/// Reads a file that only its owner may read. Returns `None` if it does not exist.
fn secret(path: &Path, largest: u64) -> Result<Option<Zeroizing<Vec<u8>>>> {
    // A dangling link is not the same as a missing file.
    match std::fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::keys(path, error)),
    }
    let found = std::fs::metadata(path).map_err(|error| Error::keys(path, error))?;
    if found.mode() & 0o077 != 0 {
        let problem = "users other than its owner can read it; run `chmod go=` on it and treat the key as compromised";
        return Err(Error::keys(path, problem));
    }
    let bytes = orlop_fs::read_file(path, largest).map_err(|error| Error::keys(path, error))?;
    Ok(Some(Zeroizing::new(bytes)))
}

/// Removes a final line end, which editors and `echo` add.
fn one_line(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_derived_once_for_a_file_and_its_passphrase() {
        let derived = Derived::default();
        let [one, other] = [(); 2].map(|()| orlop_testkit::sigstore::Key::new().private_pem());
        let keys = |file: &str, passphrase| derived.keys(file.as_bytes(), passphrase).unwrap();
        let first = keys(&one, None);
        assert_eq!(first.len(), 1);
        assert!(Arc::ptr_eq(&first, &keys(&one, None)));
        assert!(!Arc::ptr_eq(&first, &keys(&other, None)));
        assert!(!Arc::ptr_eq(&first, &keys(&one, Some(b""))));
        for number in 0..MOST_DERIVED {
            keys(&format!("{other}\n{number}"), None);
        }
        assert_eq!(derived.0.lock().len(), MOST_DERIVED);
        assert!(!Arc::ptr_eq(&first, &keys(&one, None)), "it is forgotten");
    }

    #[test]
    fn links_to_nothing_are_refused_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, nothing) = (scratch.path(), Path::new("/nonexistent/file"));
        assert!(keys_in(dir).unwrap().is_empty());
        assert_eq!(providers_in(dir), None);
        let absent = secret(&dir.join("absent"), LARGEST_KEY);
        assert!(absent.unwrap().is_none());
        let link = dir.join("key.pem");
        std::os::unix::fs::symlink(nothing, &link).unwrap();
        let refused = keys_in(dir).unwrap_err().to_string();
        assert!(refused.contains("key.pem"), "{refused}");
        std::fs::remove_file(link).unwrap();
        let link = dir.join(PROVIDERS);
        std::os::unix::fs::symlink(nothing, &link).unwrap();
        assert_eq!(providers_in(dir), Some(link));
    }
}
