//! The files of keys: which are in a directory, who may read them, and their passphrases.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use orlop_decrypt::{KeyError, PrivateKey};
use orlop_order::Order as _;
use zeroize::Zeroizing;

use super::{KeysOf, wrong};
use crate::Result;

/// No key is larger.
const LARGEST_KEY: u64 = 64 << 10;
/// No passphrase is longer.
const LONGEST_PASSPHRASE: u64 = 1 << 10;
/// More files than anybody has keys for one namespace.
const MOST_FILES: usize = 64;
/// How the file with the passphrase of a key is called, behind the name of that.
const PASSPHRASE: &str = ".passphrase";
/// How the file that names a namespace's key providers is called.
const PROVIDERS: &str = "key-providers.json";

/// The directories with keys: that for all pods, and those of namespaces.
pub(super) fn directories(dir: &Path, whose: &KeysOf) -> Result<Vec<PathBuf>> {
    let mut dirs = vec![dir.to_owned()];
    match whose {
        KeysOf::Node => {}
        KeysOf::Namespace(name) => dirs.push(dir.join(name)),
        KeysOf::Everybody => {
            for entry in std::fs::read_dir(dir).map_err(|error| wrong(dir, error))? {
                let path = entry.map_err(|error| wrong(dir, error))?.path();
                if path.is_dir() {
                    dirs.push(path);
                }
            }
        }
    }
    Ok(dirs)
}

/// All keys of a directory's files. A file that is no key is an error: it might be the one that is missed.
pub(super) fn keys_in(dir: &Path) -> Result<Vec<PrivateKey>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| wrong(dir, error))? {
        let path = entry.map_err(|error| wrong(dir, error))?.path();
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
            return Err(wrong(dir, format!("it has more than {MOST_FILES} keys")));
        }
        files.push(path);
    }
    files.order();
    let mut keys = Vec::new();
    for path in files {
        keys.extend(keys_of(&path)?);
    }
    Ok(keys)
}

/// The file that names the key providers of a namespace's directory, if there is one.
pub(super) fn providers_in(dir: &Path) -> Option<PathBuf> {
    let file = dir.join(PROVIDERS);
    // A link to nothing is refused where it is read.
    file.symlink_metadata().is_ok().then_some(file)
}

fn keys_of(path: &Path) -> Result<Vec<PrivateKey>> {
    let Some(key) = secret(path, LARGEST_KEY)? else {
        // It was there a moment ago.
        return Ok(Vec::new());
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(PASSPHRASE);
    let beside = PathBuf::from(beside);
    let passphrase = secret(&beside, LONGEST_PASSPHRASE)?;
    let passphrase = passphrase.as_ref().map(|text| one_line(text));
    let keys = PrivateKey::all_of(&key, passphrase);
    keys.map_err(|error| match error {
        KeyError::NoPassphrase => {
            let place = beside.display();
            let reason = format!("it has a passphrase: write that to {place}, for its owner alone");
            wrong(path, reason)
        }
        KeyError::WrongPassphrase => {
            let reason = format!("the passphrase in {} is not its own", beside.display());
            wrong(path, format!("{reason}, or it is damaged"))
        }
        error => wrong(path, error),
    })
}

/// What is in a file that nobody but its owner may read; nothing where there is none.
fn secret(path: &Path, largest: u64) -> Result<Option<Zeroizing<Vec<u8>>>> {
    // A link to nothing is not an absent file.
    match std::fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(path, error)),
    }
    let found = std::fs::metadata(path).map_err(|error| wrong(path, error))?;
    if found.mode() & 0o077 != 0 {
        let problem = "others than its owner may read it: `chmod go=` it, and think of the key as known to them";
        return Err(wrong(path, problem));
    }
    let bytes = orlop_disk::read_file(path, largest).map_err(|error| wrong(path, error))?;
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
