//! A runtime at work.

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

/// The process of a runtime, and what it was called for.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) purpose: Purpose,
    pub(crate) console: Option<Console>,
    /// `None` once it was answered that it takes too long.
    pub(crate) reply_to: Option<ReplyTo>,
    /// Whether somebody was there for that answer.
    pub(crate) given_up: bool,
    pub(crate) pid: Pid,
    pub(crate) begun: Instant,
    pub(crate) deadline: Instant,
    pub(crate) limit_ms: u32,
    pub(crate) log: PathBuf,
    pub(crate) output: Option<Watch>,
    pub(crate) printed: Vec<u8>,
    /// How it failed, while its explanation is waited for.
    pub(crate) failed: Option<ExitStatus>,
}

impl Call {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let is_due = self.reply_to.is_some() || self.failed.is_some();
        is_due.then_some(self.deadline)
    }

    /// Whether it takes longer than whoever waits for it was told.
    pub(crate) fn is_late(&self) -> bool {
        self.failed.is_none() && self.deadline().is_some_and(|due| due <= Instant::now())
    }

    /// Takes in what it has printed.
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
