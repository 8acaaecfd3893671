//! Bounded reads from untrusted sources such as a container's runtime.

use std::io::{Read, Result};

/// Reads the first bytes of a stream, at most `most`. The rest stays unread.
#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
pub(crate) fn read_start(from: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    from.take(most).read_to_end(&mut read)?;
    Ok(read)
}
