//! Error messages on the container's standard error, after the parent has gone.

use std::io::IoSlice;

use rustix::io::Errno;

use super::hooks::BAD_END;
use crate::plan::ProcessPlan;
use crate::report::{Fault, Step};

/// Writes to the container's standard error why its program was not started: the parent is gone by then.
pub(super) fn whoever_reads(process: &ProcessPlan, fault: Fault) {
    let why: &[u8] = match fault.errno {
        Errno::NOEXEC => b"exec format error",
        Errno::NOENT => b"no such file or directory",
        Errno::ACCESS => b"permission denied",
        Errno::PERM => b"operation not permitted",
        Errno::TOOBIG => b"argument list too long",
        Errno::TXTBSY => b"text file busy",
        Errno::NOMEM => b"cannot allocate memory",
        Errno::TIMEDOUT => b"timed out",
        _ => b"unknown error",
    };
    let (mut index, mut code) = (Digits::default(), Digits::default());
    let ended = fault.errno.raw_os_error() - BAD_END;
    let parts = match fault.step {
        Step::Execute => {
            let program = process.programs.get(usize::from(fault.index));
            let program = program.map_or(b"".as_slice(), |program| program.to_bytes());
            [b"exec ".as_slice(), program, b": ", why, b"\n"]
        }
        Step::StartHook => {
            let (how, code): (&[u8], &[u8]) = match ended {
                SIGSYS => (b": killed by a signal: bad system call", b""),
                129.. => (b": killed by signal ", code.of(ended as u32 - 128)),
                1.. => (b": exit status ", code.of(ended as u32)),
                _ => (b": ", why),
            };
            let index = index.of(fault.index.into());
            [
                b"error running startContainer hook #",
                index,
                how,
                code,
                b"\n",
            ]
        }
        _ => return,
    };
    let parts = parts.map(IoSlice::new);
    let _ = rustix::io::writev(rustix::stdio::stderr(), &parts);
}

/// The status that [`super::hooks`] gives a system call for which the filter kills.
const SIGSYS: i32 = 128 + libc::SIGSYS;

/// A number as text, without allocation.
#[derive(Default)]
struct Digits([u8; 10]);

impl Digits {
    fn of(&mut self, mut number: u32) -> &[u8] {
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.0[at..];
            }
        }
    }
}
