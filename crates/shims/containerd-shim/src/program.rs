//! Background threads, and programs with a timeout.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use orlop_ttrpc::{Status, code};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::{Result, failed, unknown};
use crate::failure_reason::failure_reason;

/// Stack size of a thread; none recurses deeply.
const STACK: usize = 128 * 1024;
/// Maximum size of the output read from a program.
const PRINTED: u64 = 4 << 20;

/// Runs work in a thread that nothing waits for.
pub(crate) fn background(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().stack_size(STACK).spawn(work);
    spawned
        .map(drop)
        .map_err(|error| unknown(format!("starting a thread: {error}")))
}

/// Runs a program to its end and returns its output. On failure, the error contains its standard error.
pub(crate) fn run(mut command: Command, limit: Duration) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let program = Path::new(&name);
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(failed("executing", program))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let read = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let read = from.map(|from| orlop_fs::read_start(from, PRINTED));
            read.and_then(Result::ok).unwrap_or_default()
        })
    };
    let output = read(output.map(|output| Box::new(output) as Box<dyn Read + Send>));
    let errors = read(errors.map(|errors| Box::new(errors) as Box<dyn Read + Send>));
    let in_time = await_end(child.id(), limit);
    if !in_time {
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed("waiting for", program))?;
    if !in_time {
        return Err(Status::new(
            code::DEADLINE_EXCEEDED,
            format!("{name} did not finish within {limit:?} and was killed"),
        ));
    }
    let output = output.join().unwrap_or_default();
    if status.success() {
        return Ok(output);
    }
    let errors = errors.join().unwrap_or_default();
    let (errors, output) = (
        String::from_utf8_lossy(&errors),
        String::from_utf8_lossy(&output),
    );
    let words = failure_reason(&errors, &output);
    Err(unknown(format!(
        "{name}: {}",
        words.unwrap_or_else(|| status.to_string())
    )))
}

/// Waits for a process to exit, also if it is not a child; returns whether it exited in time.
pub(crate) fn await_end(pid: u32, limit: Duration) -> bool {
    let Some(process) = Pid::from_raw(pid as i32) else {
        return true;
    };
    match pidfd_open(process, PidfdFlags::empty()) {
        Ok(process) => readable(process, limit),
        Err(_) => true,
    }
}

/// Waits until a descriptor is readable.
pub(crate) fn readable(fd: impl AsFd, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|count| count > 0),
        }
    }
}

/// Reaps a child in the background when it exits.
pub(crate) fn reap(mut child: Child) {
    let _ = background(move || drop(child.wait()));
}
