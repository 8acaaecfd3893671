//! Reading what others write: a container's runtime, a process that has yet to prove itself.

use std::io::{Read, Result};

/// What a stream gives first: no more than `most` bytes. What comes after them stays unread.
#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
pub(crate) fn read_start(from: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    from.take(most).read_to_end(&mut read)?;
    Ok(read)
}
