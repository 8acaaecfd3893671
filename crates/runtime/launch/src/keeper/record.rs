//! Exit records, which outlive a keeper.

use std::io;
use std::path::Path;

use orlop_keeper_protocol::{EXITS_DIR, ExitStatus};

use crate::error::{Error, Result};

/// More than the size of any exit record.
const LONGEST: u64 = 4096;

/// Reads a container's exit status, which its keeper writes before it reports it, for use after the keeper's exit.
/// `None` if the keeper did not see the container end.
///
/// `pod_dir` is the pod's directory, `container` the ID given at creation.
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
