//! The kubelet's file with a pod's id mappings.

use std::io;
use std::path::{Path, PathBuf};

use orlop_fs::Outlives;
use serde::{Deserialize, Serialize};

use super::{IdRange, UserNamespaceError};

/// Size limit of a record in bytes.
const MAX_SIZE: u64 = 64 << 10;

/// The kubelet's file with a pod's id mappings.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

/// Reads the saved range of a pod; `None` if it has no range. Blocks.
pub(super) fn read(root: &Path, uid: &str) -> Result<Option<IdRange>, UserNamespaceError> {
    let path = path(root, uid);
    let fail = |source| UserNamespaceError::File {
        path: path.clone(),
        source,
    };
    let text = match orlop_fs::read_file(&path, MAX_SIZE) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(wrong(root, uid, format!("is {error}")));
        }
        read => read.map_err(fail)?,
    };
    let record: Record = serde_json::from_slice(&text)
        .map_err(|error| wrong(root, uid, format!("is not valid JSON: {error}")))?;
    let ([own], gids) = (&record.uid_mappings[..], &record.gid_mappings[..]) else {
        return Err(wrong(root, uid, "must have exactly one mapping".to_owned()));
    };
    if gids != [own.clone()] {
        let why = "must have the same mapping for users and groups";
        return Err(wrong(root, uid, why.to_owned()));
    }
    if own.container_id != 0 {
        return Err(wrong(root, uid, "must map id 0 of the pod".to_owned()));
    }
    Ok(Some(IdRange {
        first: own.host_id,
        length: own.length,
    }))
}

/// Saves the range of a pod durably. Blocks.
pub(super) fn write(root: &Path, uid: &str, range: IdRange) -> Result<(), UserNamespaceError> {
    let path = path(root, uid);
    let mapping = Mapping {
        host_id: range.first,
        container_id: 0,
        length: range.length,
    };
    let record = Record {
        uid_mappings: vec![mapping.clone()],
        gid_mappings: vec![mapping],
    };
    let store = || {
        orlop_fs::write_file(
            &path,
            0o600,
            Outlives::PowerCut,
            &serde_json::to_vec(&record)?,
        )
    };
    store().map_err(|source| UserNamespaceError::File {
        path: path.clone(),
        source,
    })
}

/// Returns the error for an invalid record.
pub(super) fn wrong(root: &Path, uid: &str, why: String) -> UserNamespaceError {
    UserNamespaceError::Record {
        uid: uid.to_owned(),
        path: path(root, uid),
        why,
    }
}

fn path(root: &Path, uid: &str) -> PathBuf {
    root.join("pods").join(uid).join("userns")
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    #[test]
    fn what_is_no_record_is_told_and_not_waited_for() {
        let [large, pipe] = said_of_hostile_files("pods/u/userns", |path| {
            let root = path.ancestors().nth(3).unwrap();
            read(root, "u").expect_err("an error").to_string()
        });
        assert!(
            large.contains("DIR/pods/u/userns") && large.contains("65536"),
            "{large}"
        );
        assert!(pipe.contains("DIR/pods/u/userns"), "{pipe}");
    }
}
