//! `binary://` loggers: programs that receive a container's output, as nerdctl uses them. The program gets both
//! streams as file descriptors 3 and 4, and signals readiness by closing or writing descriptor 5.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Result, failed, unknown};
use crate::owner::Owner;
use crate::program::{readable, reap};

/// How long the program may take until it is ready.
const LIMIT: Duration = Duration::from_secs(10);
/// The first of the descriptors for the program.
const FIRST: i32 = 3;

/// A program that receives a container's output. It exits when the last writer has closed the streams.
#[derive(Debug)]
pub(crate) struct Logger(Option<Child>);

impl Drop for Logger {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            reap(child);
        }
    }
}

/// Starts the program of a URI (without its scheme); returns the writing ends of the streams.
pub(crate) fn start(uri: &str, owner: Owner<'_>) -> Result<(Logger, [OwnedFd; 2])> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let path = unescaped(path);
    let program = Path::new(&path);
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed("creating a pipe for", program));
    let ((out, print_out), (err, print_err), (is_ready, ready)) = (pipe()?, pipe()?, pipe()?);
    let mut command = Command::new(program);
    for word in query.split('&').filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let words = [unescaped(name), unescaped(value)];
        command.args(words.into_iter().filter(|word| !word.is_empty()));
    }
    command
        .env("CONTAINER_ID", owner.id)
        .env("CONTAINER_NAMESPACE", owner.namespace)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let given = [out, err, ready];
    let numbers = [&given[0], &given[1], &given[2]].map(AsRawFd::as_raw_fd);
    let prepare = move || {
        // Duplicate them to free numbers first, then to their final ones, without close-on-exec.
        let mut moved = [0; 3];
        for (at, number) in numbers.into_iter().enumerate() {
            // SAFETY: fcntl and dup2 are system calls on descriptor numbers.
            moved[at] = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST + 3) };
        }
        for (at, number) in moved.into_iter().enumerate() {
            // SAFETY: as above.
            if number < 0 || unsafe { libc::dup2(number, FIRST + at as i32) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: only system calls run between fork and exec.
    unsafe { command.pre_exec(prepare) };
    let mut child = command
        .spawn()
        .map_err(failed("starting the logger", program))?;
    drop(given);
    if !readable(&is_ready, LIMIT) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(unknown(format!(
            "the logger {path} was not ready within {LIMIT:?}"
        )));
    }
    let _ = File::from(is_ready).read(&mut [0]);
    Ok((Logger(Some(child)), [print_out, print_err]))
}

fn unescaped(text: &str) -> String {
    let bytes = percent_encoding::percent_decode_str(text);
    bytes.decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Owner, start, unescaped};

    #[test]
    fn a_logger_takes_both_streams_and_knows_whose_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("logger");
        let script = "#!/bin/sh\nexec 5>&-\n{ echo $1 $2 $CONTAINER_NAMESPACE $CONTAINER_ID; cat <&3; cat <&4; } > $2\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let log = dir.path().join("a log");
        let uri = format!("{}?-o={}", program.display(), log.display()).replace(' ', "%20");
        let owner = Owner {
            namespace: "n",
            id: "c",
            user: (0, 0),
        };
        // Unquoted in the script, the path of the log must have no blank.
        let uri = uri.replace("a%20log", "a%2dlog");
        let (mut logger, [out, err]) = start(&uri, owner).unwrap();
        std::fs::File::from(out).write_all(b"out\n").unwrap();
        std::fs::File::from(err).write_all(b"err\n").unwrap();
        let mut child = logger.0.take().unwrap();
        assert!(child.wait().unwrap().success());
        let log = dir.path().join("a-log");
        let text = orlop_fs::read_text(&log, 4096).unwrap();
        assert_eq!(text, format!("-o {} n c\nout\nerr\n", log.display()));
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(unescaped("a%20b%2"), "a b%2");
    }
}
