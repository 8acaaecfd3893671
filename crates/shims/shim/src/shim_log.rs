//! The log of the shim of a pod.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::background::background;
use crate::error::{Error, Result};
use crate::fifo::make_fifo;
use crate::state_dir::PodDir;

/// The most that is kept of what a shim says.
const LARGEST_LOG: u64 = 1 << 20;

/// What a shim prints goes to a pipe of this name in its working directory.
pub(crate) fn keep(pod: &PodDir, bundle: &Path) -> Result<()> {
    let fifo = bundle.join("log");
    make_fifo(&fifo)?;
    // With a writing end of our own it never comes to an end.
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

/// What the shim wrote into its log at last.
pub(crate) fn last_words(pod: &PodDir) -> String {
    let log = orlop_fs::read_tail(pod.log(), 2000).unwrap_or_default();
    String::from_utf8_lossy(&log).trim().to_owned()
}
