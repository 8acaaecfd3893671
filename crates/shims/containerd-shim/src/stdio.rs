//! Standard streams of a process as containerd names them: FIFOs that containerd created, files, and logger programs.
//! The process gets them directly; no output passes through this program.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use orlop_ttrpc::Status;
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, fchown, fstat, open};
use rustix::io::Errno;

use crate::error::{Result, failed, unknown};
use crate::logger::{self, Logger};
use crate::owner::Owner;

/// How long to wait for a reader of the output.
const READER_LIMIT: Duration = Duration::from_secs(1);

/// The names of the streams; an empty name means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streams {
    pub(crate) stdin: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) terminal: bool,
}

/// Opened streams.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Standard input, output and error.
    pub(crate) three: [OwnedFd; 3],
    /// Our own writing end of standard input. It keeps the input open between two clients. It is closed on the
    /// client's `CloseIO` or when the process is deleted.
    pub(crate) stdin: Option<OwnedFd>,
    /// The logger program.
    pub(crate) logger: Option<Logger>,
}

impl Streams {
    pub(crate) fn open(&self, owner: Owner<'_>) -> Result<Opened> {
        let stdin = Path::new(&self.stdin);
        let (input, held) = if self.stdin.is_empty() {
            (null()?, None)
        } else if self.terminal {
            // A terminal's input never ends: clients may reattach.
            (fifo(stdin, OFlags::RDWR)?, Some(fifo(stdin, OFlags::RDWR)?))
        } else {
            let held = fifo(stdin, OFlags::RDWR)?;
            (fifo(stdin, OFlags::RDONLY)?, Some(held))
        };
        if let Some(uri) = self.stdout.strip_prefix("binary://") {
            let (logger, [out, err]) = logger::start(uri, owner)?;
            return Ok(Opened {
                three: [input, out, err],
                stdin: held,
                logger: Some(logger),
            });
        }
        let out = output(&self.stdout)?;
        // A terminal has one output.
        let err = if self.terminal {
            null()?
        } else {
            output(&self.stderr)?
        };
        let (uid, gid) = owner.user;
        if uid != 0 || gid != 0 {
            for stream in [&input, &out, &err] {
                give(stream, uid, gid)?;
            }
        }
        Ok(Opened {
            three: [input, out, err],
            stdin: held,
            logger: None,
        })
    }
}

fn output(name: &str) -> Result<OwnedFd> {
    if name.is_empty() {
        return null();
    }
    let (scheme, path) = name.split_once("://").unwrap_or(("", name));
    let path = Path::new(path);
    match scheme {
        "" | "fifo" => match kind_of(path)? {
            // Our own reading end keeps the FIFO intact while containerd is away.
            FileType::Fifo => {
                // Held meanwhile, because a reader sees the end of file when a writer closes.
                let _first = await_reader(path);
                fifo(path, OFlags::RDWR)
            }
            FileType::RegularFile => append(path),
            _ => Err(unknown(format!(
                "{} is neither a FIFO nor a file",
                path.display()
            ))),
        },
        "file" => append(path),
        _ => Err(unknown(format!(
            "this shim does not support standard streams of type {scheme}://, only fifo, file and \
             binary; set io_type = \"fifo\" in containerd's configuration of the runtime handler"
        ))),
    }
}

/// Waits for a reader of a FIFO, without which output is lost when its last writer closes. containerd opens it during
/// this call; if it does not within the limit, it does not intend to.
fn await_reader(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let deadline = Instant::now() + READER_LIMIT;
    loop {
        match open(path, flags, Mode::empty()) {
            Err(Errno::NXIO) if Instant::now() < deadline => sleep(Duration::from_millis(1)),
            opened => return opened.ok(),
        }
    }
}

fn append(path: &Path) -> Result<OwnedFd> {
    let file = File::options().create(true).append(true).open(path);
    file.map(OwnedFd::from).map_err(failed("opening", path))
}

fn kind_of(path: &Path) -> Result<FileType> {
    let status = rustix::fs::stat(path).map_err(failed("reading the attributes of", path))?;
    Ok(FileType::from_raw_mode(status.st_mode))
}

fn fifo(path: &Path, access: OFlags) -> Result<OwnedFd> {
    // Opened without blocking for the other side, which may never come; blocking afterwards.
    let fd = open(
        path,
        access | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    );
    let fd = fd.map_err(failed("opening", path))?;
    let status = fstat(&fd).map_err(failed("reading the attributes of", path))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
        return Err(unknown(format!("{} is not a FIFO", path.display())));
    }
    rustix::fs::fcntl_setfl(&fd, access).map_err(failed("opening", path))?;
    Ok(fd)
}

fn null() -> Result<OwnedFd> {
    let path = Path::new("/dev/null");
    open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed("opening", path))
}

/// Changes the owner of a stream to the process's user, who may reopen it as `/dev/stdout`; never that of a device.
fn give(stream: impl AsFd, uid: u32, gid: u32) -> Result<(), Status> {
    let problem = || {
        failed(
            "changing the owner of a stream of",
            Path::new("the container"),
        )
    };
    let status = fstat(&stream).map_err(problem())?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    fchown(stream, Some(uid), Some(gid)).map_err(problem())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::{Owner, Streams};

    const OWNER: Owner<'static> = Owner {
        namespace: "n",
        id: "c",
        user: (0, 0),
    };

    fn streams(stdin: &str, stdout: &str) -> Streams {
        Streams {
            stdin: stdin.into(),
            stdout: stdout.into(),
            ..Streams::default()
        }
    }

    #[test]
    fn fifos_are_open_though_nobody_is_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        for name in ["in", "out"] {
            mknodat(CWD, path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        let opened = streams(&path("in"), &path("out")).open(OWNER).unwrap();
        let [input, out, _] = opened.three;
        let mut out = std::fs::File::from(out);
        out.write_all(b"printed before anybody reads").unwrap();
        let mut reader = std::fs::File::open(path("out")).unwrap();
        let mut read = [0; 28];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"printed before anybody reads");
        // Standard input stays open when a client disconnects, and ends when our own end is closed.
        let mut input = std::fs::File::from(input);
        for client in ["one", "two"] {
            std::fs::write(path("in"), client).unwrap();
            let mut read = [0; 3];
            input.read_exact(&mut read).unwrap();
            assert_eq!(&read, client.as_bytes());
        }
        drop(opened.stdin);
        assert_eq!(input.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn what_is_no_stream_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().to_string_lossy().into_owned();
        for (stdin, stdout, problem) in [
            ("", here.as_str(), "is neither a FIFO nor a file"),
            ("/dev/null", "", "is not a FIFO"),
            (
                "",
                "ttrpc+unix:///run/x?streaming_id=1",
                "standard streams of type ttrpc+unix://",
            ),
            ("", "/no/such/fifo", "/no/such/fifo"),
            ("", "binary:///no/such/logger", "/no/such/logger"),
        ] {
            let refused = streams(stdin, stdout).open(OWNER).unwrap_err();
            assert!(refused.message.contains(problem), "{}", refused.message);
        }
        let log = format!("file://{here}/log");
        drop(streams("", &log).open(OWNER).unwrap());
        assert!(dir.path().join("log").is_file());
    }
}
