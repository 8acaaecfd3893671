//! The exit records that outlive a keeper.

use std::io;
use std::path::Path;

use orlop_keeper_protocol::{EXITS_DIR, ExitStatus};

use crate::error::{Error, Result};

/// Longer than any record of an exit.
const LONGEST: u64 = 4096;

/// How a container ended, as its keeper wrote it down before it reported it; for use after the
/// keeper's death. `None` if it had not seen the container end.
///
/// `pod_dir` is the pod's directory, `container` the identity given on creation.
pub fn recorded_exit(pod_dir: &Path, container: &str) -> Result<Option<ExitStatus>> {
    let path = pod_dir.join(EXITS_DIR).join(container);
    let failure = |source| Error::File {
        doing: "reading exit record",
        path: path.clone(),
        source,
    };
    let text = match orlop_fs::read_text(&path, LONGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failure(error)),
    };
    match text.parse() {
        Ok(status) => Ok(Some(status)),
        Err(error) => Err(failure(io::Error::new(io::ErrorKind::InvalidData, error))),
    }
}
