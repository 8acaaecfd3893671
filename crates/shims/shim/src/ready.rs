//! Background processes of this program, and their readiness report.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::arguments::{Settings, Words};
use crate::error::{Error, Result};

/// The report of a process that is ready.
const WELL: &[u8] = b"ok\n";
const LONGEST_PROBLEM: u64 = 16 * 1024;

/// The standard streams of a background process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    Ours,
    None,
}

/// Starts another process of this program and waits until it reports that it is ready.
pub(crate) fn spawn(settings: &Settings, words: &[OsString], streams: Streams) -> Result<()> {
    let failed = |source: std::io::Error| Error::Io {
        doing: "starting a background process".into(),
        source,
    };
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
    fcntl_setfd(&write, FdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .args(settings.words())
        .args(words)
        .arg("--ready")
        .arg(write.as_raw_fd().to_string());
    if streams == Streams::None {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }
    // Not waited for: it is reparented to the subreaper.
    let _background = command.spawn().map_err(failed)?;
    drop(write);
    let said = orlop_fs::read_start(File::from(read), LONGEST_PROBLEM).map_err(failed)?;
    match String::from_utf8_lossy(&said).trim() {
        "ok" => Ok(()),
        "" => Err(Error::Failed(
            "a background process exited immediately".into(),
        )),
        problem => Err(Error::Failed(problem.to_owned())),
    }
}

/// The writing end of the readiness report.
#[derive(Debug)]
pub(crate) struct Ready(File);

impl Ready {
    pub(crate) fn of(words: &Words) -> Result<Self> {
        Ok(Self(inherited(words, "--ready")?.into()))
    }

    /// Reports success or the error to the waiting parent. If the parent has exited, no report is needed.
    pub(crate) fn tell<T>(mut self, made: Result<T>) -> Result<T> {
        let _ = match &made {
            Ok(_) => self.0.write_all(WELL),
            Err(error) => self.0.write_all(error.to_string().as_bytes()),
        };
        made
    }
}

/// Takes the descriptor that the parent passes by its number in an option.
#[allow(unsafe_code)]
pub(crate) fn inherited(words: &Words, option: &str) -> Result<OwnedFd> {
    let number = words.needed(option)?;
    let number = number
        .to_str()
        .and_then(|number| number.parse::<i32>().ok());
    let number = number.filter(|number| *number > 2);
    let number = number.ok_or_else(|| Error::Usage(format!("{option} needs a file descriptor")))?;
    // SAFETY: the descriptor was opened for this and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|errno| Error::Io {
        doing: format!("opening the file descriptor of {option}"),
        source: errno.into(),
    })?;
    Ok(fd)
}

/// Writes our pid to the caller's pid file, because this process stands for the container.
pub(crate) fn note_own_pid(words: &Words) -> Result<()> {
    let Some(path) = words.option("--pid-file") else {
        return Ok(());
    };
    let pid = std::process::id().to_string();
    std::fs::write(&path, pid).map_err(Error::file("writing", &path))
}
