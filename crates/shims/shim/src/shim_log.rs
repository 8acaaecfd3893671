//! The log of the shim of a pod.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::background::background;
use crate::error::{Error, Result};
use crate::fifo::make_fifo;
use crate::state_dir::PodDir;

/// Maximum size of a shim's log.
const LARGEST_LOG: u64 = 1 << 20;

/// Copies a shim's output to the log. The shim writes to a FIFO of this name in its working directory.
pub(crate) fn keep(pod: &PodDir, bundle: &Path) -> Result<()> {
    let fifo = bundle.join("log");
    make_fifo(&fifo)?;
    // Our own writing end keeps the FIFO open.
    let options = File::options().read(true).write(true).open(&fifo);
    let mut from = options.map_err(Error::file("opening", &fifo))?;
    let path = pod.log();
    let to = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path);
    let mut to = to.map_err(Error::file("opening", &path))?;
    background(move || {
        let mut kept = 0;
        let mut bytes = [0; 4096];
        while let Ok(read) = from.read(&mut bytes) {
            if kept < LARGEST_LOG && to.write_all(&bytes[..read]).is_ok() {
                kept += read as u64;
            }
        }
    })
}

/// Returns the end of the shim's log.
pub(crate) fn last_words(pod: &PodDir) -> String {
    let log = orlop_fs::read_tail(pod.log(), 2000).unwrap_or_default();
    String::from_utf8_lossy(&log).trim().to_owned()
}
