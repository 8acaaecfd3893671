//! The format version of the root directory, so that a daemon refuses data in an unknown format.

use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use orlop_fs::Outlives;

/// The version that this daemon writes and reads.
const CURRENT: u32 = 1;

const FILE: &str = "format";

/// Marks a new root with the format version, and refuses a root with another version.
pub(super) fn check(root: &Path) -> anyhow::Result<()> {
    let path = root.join(FILE);
    let shown = root.display();
    let text = match orlop_fs::read_text(&path, orlop_fs::SMALL_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return mark(root)
                .with_context(|| format!("cannot write to the root directory {shown}"));
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    match text.trim().parse::<u32>() {
        Ok(CURRENT) => Ok(()),
        Ok(newer) if newer > CURRENT => bail!(
            "the root directory {shown} has format {newer} of a newer orlop; this version supports \
             format {CURRENT}; upgrade orlop or choose another --root",
        ),
        _ => bail!(
            "{} does not contain a valid format number: {text:?}",
            path.display()
        ),
    }
}

/// Writes the mark atomically, as it is checked before everything else.
fn mark(root: &Path) -> io::Result<()> {
    let text = format!("{CURRENT}\n");
    orlop_fs::write_file(&root.join(FILE), 0o644, Outlives::PowerCut, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_new_root_is_marked_and_known_again() {
        let root = tempfile::tempdir().unwrap();
        check(root.path()).unwrap();
        assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), "1\n");
        check(root.path()).unwrap();
    }

    #[test]
    fn a_root_of_a_newer_version_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(FILE), "2\n").unwrap();
        let error = check(root.path()).unwrap_err().to_string();
        assert!(error.contains("format 2 of a newer orlop"), "{error}");
        fs::write(root.path().join(FILE), "").unwrap();
        assert!(check(root.path()).is_err());
    }
}
