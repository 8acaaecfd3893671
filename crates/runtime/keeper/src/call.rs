//! A running call of the OCI runtime.

use std::path::PathBuf;
use std::time::Instant;

use orlop_keeper_protocol::ExitStatus;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::connection::ReplyTo;
use crate::console::Console;
use crate::purpose::Purpose;
use crate::reactor::Watch;
use crate::text::keep_tail;

/// The process of a runtime and the purpose of the call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) purpose: Purpose,
    pub(crate) console: Option<Console>,
    /// `None` once the keeper has replied that the call takes too long.
    pub(crate) reply_to: Option<ReplyTo>,
    /// Whether a client received that reply.
    pub(crate) given_up: bool,
    pub(crate) pid: Pid,
    pub(crate) begun: Instant,
    pub(crate) deadline: Instant,
    pub(crate) limit_ms: u32,
    pub(crate) log: PathBuf,
    pub(crate) output: Option<Watch>,
    pub(crate) printed: Vec<u8>,
    /// The exit status of a failed call, while the keeper waits for an error message.
    pub(crate) failed: Option<ExitStatus>,
}

impl Call {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let is_due = self.reply_to.is_some() || self.failed.is_some();
        is_due.then_some(self.deadline)
    }

    /// Returns whether it runs longer than the limit given to the waiting client.
    pub(crate) fn is_late(&self) -> bool {
        self.failed.is_none() && self.deadline().is_some_and(|due| due <= Instant::now())
    }

    /// Reads and keeps what the runtime has printed.
    pub(crate) fn read_output(&mut self) {
        let mut bytes = [0; 1024];
        while let Some(output) = &self.output {
            match rustix::io::read(output, &mut bytes) {
                Ok(0) => self.output = None,
                Ok(count) => keep_tail(&mut self.printed, &bytes[..count]),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => self.output = None,
            }
        }
    }
}
