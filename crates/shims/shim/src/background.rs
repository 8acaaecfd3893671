//! Threads that wait for something.

use std::thread;

use crate::error::{Error, Result};

/// None of them goes deep.
const STACK: usize = 128 * 1024;

/// Does something beside all else. Nobody waits for it.
pub(crate) fn background(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().stack_size(STACK).spawn(work);
    spawned.map(drop).map_err(|source| Error::Io {
        doing: "starting a thread".into(),
        source,
    })
}
