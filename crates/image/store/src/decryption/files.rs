//! The files of keys: which are in a directory, who may read them, and their passphrases.

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

/// No key is larger.
const LARGEST_KEY: u64 = 64 << 10;
/// No passphrase is longer.
const LONGEST_PASSPHRASE: u64 = 1 << 10;
/// More files than anybody has keys for one namespace.
const MOST_FILES: usize = 64;
/// So many files are remembered with their keys.
const MOST_DERIVED: usize = 256;
/// How the file with the passphrase of a key is called, behind the name of that.
const PASSPHRASE: &str = ".passphrase";
/// How the file that names a namespace's key providers is called.
const PROVIDERS: &str = "key-providers.json";

/// The keys of one file.
pub(super) type KeysOfFile = Arc<Vec<PrivateKey>>;

/// Keys that were read, by a digest of their file and passphrase: to derive a key from its passphrase may take seconds
/// of a processor, and containers of encrypted images need the keys each time.
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

/// The directories with keys: that for all pods, and those of namespaces.
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

/// All keys of a directory's files. A file that is no key is an error: it might be the one that is missed.
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

/// The file that names the key providers of a namespace's directory, if there is one.
pub(super) fn providers_in(dir: &Path) -> Option<PathBuf> {
    let file = dir.join(PROVIDERS);
    // A link to nothing is refused where it is read.
    file.symlink_metadata().is_ok().then_some(file)
}

fn keys_of(path: &Path) -> Result<KeysOfFile> {
    let Some(key) = secret(path, LARGEST_KEY)? else {
        // It was there a moment ago.
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

/// What is in a file that nobody but its owner may read; nothing where there is none.
fn secret(path: &Path, largest: u64) -> Result<Option<Zeroizing<Vec<u8>>>> {
    // A link to nothing is not an absent file.
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

/// A text without the end of its line, which editors and `echo` put there.
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
