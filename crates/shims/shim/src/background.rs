//! Background threads.

use std::thread;

use crate::error::{Error, Result};

/// Stack size of a thread; none recurses deeply.
const STACK: usize = 128 * 1024;

/// Runs work in a thread that nothing waits for.
pub(crate) fn background(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().stack_size(STACK).spawn(work);
    spawned.map(drop).map_err(|source| Error::Io {
        doing: "starting a thread".into(),
        source,
    })
}
