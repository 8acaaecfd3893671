//! The FUSE handshake of a session.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::number::{
    MAJOR, MINOR_LEAST, MINOR_MOST, PAGES_MOST, REQUEST_SIZE, WRITE_MOST, capability, opcode,
};
use super::reply::Reply;
use super::request::Request;

/// Maximum number of concurrent read-ahead requests. It is large, so that those that wait for missing parts do not
/// delay others.
const AHEAD_MOST: u16 = 16_384;

/// The result of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Whether the kernel can resend unanswered requests.
    pub(crate) resend: bool,
}

/// Waits for the kernel's first request, and answers it.
pub(crate) fn agree(fuse: impl AsFd, may_resend: bool) -> io::Result<Agreed> {
    let mut buffer = vec![0; REQUEST_SIZE];
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&fuse, &mut buffer[..]))?;
        let Some(request) = Request::parse(&buffer[..count]) else {
            continue;
        };
        let unique = request.header.unique;
        let words = [0, 4, 8, 12].map(|at| request.word32(at));
        let ([Some(major), Some(minor), Some(ahead), Some(flags)], opcode::INIT) =
            (words, request.header.opcode)
        else {
            Reply::error(unique, Errno::IO).send(&fuse);
            continue;
        };
        if major > MAJOR {
            // The kernel repeats the request in the form of this version.
            answer(unique, MINOR_MOST, 0, 0).send(&fuse);
            continue;
        }
        if major < MAJOR || minor < MINOR_LEAST {
            Reply::error(unique, Errno::PROTO).send(&fuse);
            let what =
                format!("the kernel supports only FUSE {major}.{minor}; version 7.31 is required");
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let mut offered = u64::from(flags);
        if offered & capability::INIT_EXT != 0 {
            offered |= u64::from(request.word32(16).unwrap_or(0)) << 32;
        }
        // Excludes asynchronous direct I/O: a signal could not end its reader's wait.
        let mut wanted = capability::ASYNC_READ
            | capability::PARALLEL_DIROPS
            | capability::MAX_PAGES
            | capability::INIT_EXT;
        if may_resend {
            wanted |= capability::HAS_RESEND;
        }
        let both = offered & wanted;
        answer(unique, minor.min(MINOR_MOST), ahead, both).send(&fuse);
        return Ok(Agreed {
            resend: both & capability::HAS_RESEND != 0,
        });
    }
}

fn answer(unique: u64, minor: u32, ahead: u32, flags: u64) -> Reply {
    let mut out = Vec::new();
    for word in [MAJOR, minor, ahead, flags as u32] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    for half in [AHEAD_MOST, AHEAD_MOST / 4 * 3] {
        out.extend_from_slice(&half.to_ne_bytes());
    }
    out.extend_from_slice(&WRITE_MOST.to_ne_bytes());
    // Timestamps have a granularity of one nanosecond.
    out.extend_from_slice(&1_u32.to_ne_bytes());
    out.extend_from_slice(&PAGES_MOST.to_ne_bytes());
    out.extend_from_slice(&0_u16.to_ne_bytes());
    out.extend_from_slice(&((flags >> 32) as u32).to_ne_bytes());
    out.resize(64, 0);
    Reply::bytes(unique, &out)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn init(major: u32, minor: u32, flags: u32, more: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(104_u32.to_ne_bytes());
        bytes.extend(opcode::INIT.to_ne_bytes());
        bytes.extend(5_u64.to_ne_bytes());
        bytes.extend([0; 24]);
        for word in [major, minor, 131_072, flags, more] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(104, 0);
        bytes
    }

    fn talk(request: &[u8], may_resend: bool) -> (io::Result<Agreed>, Vec<u8>) {
        let (ours, mut kernel) = UnixStream::pair().unwrap();
        kernel.write_all(request).unwrap();
        let agreed = agree(&ours, may_resend);
        let mut answer = vec![0; 200];
        let count = kernel.read(&mut answer).unwrap();
        answer.truncate(count);
        (agreed, answer)
    }

    #[test]
    fn only_what_both_know_is_agreed_upon() {
        let request = init(7, 45, u32::MAX, u32::MAX);
        let (agreed, answer) = talk(&request, true);
        assert!(agreed.unwrap().resend);
        assert_eq!(answer.len(), 16 + 64);
        assert_eq!(answer[20..24], MINOR_MOST.to_ne_bytes());
        assert_eq!(answer[44..46], PAGES_MOST.to_ne_bytes());
        let (agreed, _) = talk(&request, false);
        assert!(!agreed.unwrap().resend);
        let (agreed, _) = talk(&init(7, 31, 1, u32::MAX), true);
        assert!(!agreed.unwrap().resend, "the second word was not announced");
    }

    #[test]
    fn a_kernel_that_is_too_old_is_refused() {
        let (agreed, answer) = talk(&init(7, 30, u32::MAX, 0), true);
        agreed.unwrap_err();
        assert_eq!(answer.len(), 16);
    }
}
