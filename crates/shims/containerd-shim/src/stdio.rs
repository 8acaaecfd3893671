//! A process's standard streams as containerd names them: fifos that it has made, files, and programs that
//! take what is printed. The process gets them as they are: nothing of what it prints passes through here.

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

/// How long it is waited for whoever is to read what is printed.
const READER_LIMIT: Duration = Duration::from_secs(1);

/// Streams by their names; an empty one is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streams {
    pub(crate) stdin: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) terminal: bool,
}

/// Streams that are open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Standard input, output and error.
    pub(crate) three: [OwnedFd; 3],
    /// An end of standard input of our own, which keeps it from ending between two of its clients, and these
    /// from writing to nobody: it goes when its client says so, by `CloseIO`, or with the process's deletion.
    pub(crate) stdin: Option<OwnedFd>,
    /// A program that takes what is printed.
    pub(crate) logger: Option<Logger>,
}

impl Streams {
    pub(crate) fn open(&self, owner: Owner<'_>) -> Result<Opened> {
        let stdin = Path::new(&self.stdin);
        let (input, held) = if self.stdin.is_empty() {
            (null()?, None)
        } else if self.terminal {
            // A terminal has no end: clients may come and go.
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
            // With an end of our own for reading, a containerd that is away for a while breaks nothing.
            FileType::Fifo => {
                // Held meanwhile: a writer that comes and goes is the end to whoever reads.
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

/// What is printed into a fifo is lost with its last writer where nobody has opened it for reading. containerd
/// does so while it calls us; who does not in this time does not mean to.
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
    // Not waiting for the other side, which may never come; without that flag from then on.
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

/// Makes a stream its process's, who may open it anew by `/dev/stdout`; never a device of the node's.
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
        // Standard input goes on when a client leaves, and ends when it is told to.
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
