//! Startup of the server process.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use orlop_keeper_protocol::{
    Body, Failure, FailureKind, Frame, FrameBuffer, LAZY_SOCKET_NAME, LAZY_VERSION, LazyBegin,
    Message,
};
use rustix::fs::{AtFlags, Mode, OFlags, open, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::{Resource, Rlimit, chdir, getrlimit, setrlimit, setsid, umask};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::answer::Answers;
use crate::control::Control;
use crate::failure::failure;
use crate::fuse;
use crate::journal::{Journal, READERS};
use crate::layers::Layers;
use crate::place::{lock, make_way};
use crate::reader;
use crate::session::Session;
use crate::sys::{Fork, close_from, exit_now, fork};

/// The file for messages that no reply can carry: panics, and errors of files.
const LOG_NAME: &str = "lazy.log";

/// Backlog of the listening socket.
const ACCEPT_QUEUE: i32 = 16;

/// Stack size of a reader's thread, with a large reserve.
const STACK_SIZE: usize = 128 << 10;

/// Detaches from the daemon, starts or takes over a session, and serves it.
pub(crate) fn run() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let places = arguments.next().zip(arguments.next());
    let socket = match detach() {
        Ok(Some(socket)) => socket,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orlop-lazy: cannot detach from the daemon: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Without a daemon on standard input the server has no peer.
    let (Some(first), Some((directory, mount_point))) = (first_message(&socket), places) else {
        eprintln!("orlop-lazy is started by the orlop daemon; do not run it by hand");
        return ExitCode::FAILURE;
    };
    match settle(first.begin, first.fds, &directory, mount_point) {
        Ok(mut control) => {
            control.begin(socket, first.rest, first.request);
            let code = control.run();
            // The exit does not wait for threads that block in the kernel.
            exit_now(i32::from(code != ExitCode::SUCCESS))
        }
        Err(failure) => {
            if let Ok(bytes) = Frame::encode(&failure, first.request, 0) {
                let _ = orlop_keeper_protocol::send(&socket, &bytes, &[]);
            }
            ExitCode::FAILURE
        }
    }
}

/// Leaves the daemon's session and closes all inherited descriptors except the socket. Returns `None` in the process
/// that the daemon started, which then exits.
#[allow(unsafe_code, reason = "this is the start of the process")]
fn detach() -> io::Result<Option<OwnedFd>> {
    // SAFETY: no thread has been started yet.
    if unsafe { fork() }? == Fork::Parent {
        return Ok(None);
    }
    setsid()?;
    // SAFETY: this process has not opened any descriptor yet; all open ones are inherited.
    unsafe { close_from(3) }?;
    chdir("/")?;
    umask(Mode::from_bits_truncate(0o077));
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(Some(socket))
}

struct First {
    begin: LazyBegin,
    fds: Vec<OwnedFd>,
    request: u32,
    rest: FrameBuffer,
}

/// Waits for the daemon's first message, which selects the task.
fn first_message(socket: &OwnedFd) -> Option<First> {
    let (frame, rest) = orlop_keeper_protocol::first_frame(socket)?;
    let begin = LazyBegin::decode(&frame.payload).ok()?;
    (frame.kind == LazyBegin::KIND).then_some(First {
        begin,
        fds: frame.fds,
        request: frame.request,
        rest,
    })
}

/// Prepares the session; when it returns, the threads read requests.
fn settle(
    begin: LazyBegin,
    fds: Vec<OwnedFd>,
    directory: &Path,
    mount_point: PathBuf,
) -> Result<Control, Failure> {
    let doing = |what: &'static str| {
        move |error: io::Error| failure(FailureKind::Failed, format!("{what}: {error}"))
    };
    if begin.version != LAZY_VERSION {
        let what = format!("protocol version {} is not supported", begin.version);
        return Err(failure(FailureKind::Unsupported, what));
    }
    let locked = lock(directory).map_err(doing("locking the directory"))?;
    divert_errors(directory).map_err(doing("opening a log"))?;
    // Each layer has two open files.
    let _ = raise_open_files();
    let mut by_journal = begin.by_journal;
    let (session, taken) = if begin.take_over {
        let [fuse, journal] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| {
            let what = "taking over a session: its file descriptors are missing".to_owned();
            failure(FailureKind::Invalid, what)
        })?;
        let (journal, agreed) = Journal::take_over(journal)
            .map_err(|errno| doing("reading the journal")(errno.into()))?;
        by_journal |= !agreed.resend;
        let layers = Layers::take_over(locked).map_err(doing("reading the list of layers"))?;
        let mut taken = BTreeSet::new();
        for entry in 0..journal.used() {
            if !by_journal {
                journal.erase(entry);
            } else if journal.noted(entry).is_some() {
                taken.insert(entry);
            }
        }
        let session = Session::new(fuse, journal, layers, &taken);
        (session, taken)
    } else {
        let layers = Layers::new(locked).map_err(doing("writing the list of layers"))?;
        let journal = Journal::new();
        let journal = journal.map_err(|errno| doing("creating a journal")(errno.into()))?;
        let fuse = fuse::open().map_err(doing("opening /dev/fuse"))?;
        make_way(&mount_point).map_err(doing("preparing the mount point"))?;
        fuse::mount(&fuse, &mount_point).map_err(doing("mounting"))?;
        let agreed =
            fuse::agree(&fuse, !by_journal).map_err(doing("negotiating with the kernel"))?;
        journal.begun(agreed);
        let none = BTreeSet::new();
        (Session::new(fuse, journal, layers, &none), none)
    };
    let session = session.map_err(|errno| doing("creating a session")(errno.into()))?;
    let session = Arc::new(session);
    // If a pipe of this size is not possible, the start fails instead of a read.
    let mut answers = Answers::ready().map_err(|errno| doing("creating a pipe")(errno.into()))?;
    for entry in taken {
        if let Some(noted) = session.journal.noted(entry) {
            session.adopt(entry, noted, &mut answers);
        }
    }
    read_requests(&session, by_journal).map_err(doing("starting threads"))?;
    if begin.take_over && !by_journal {
        fuse::send_again(&session.fuse)
            .map_err(|errno| doing("asking the kernel to resend pending requests")(errno.into()))?;
    }
    let listener = listen_in(directory).map_err(doing("listening"))?;
    Ok(Control::new(session, mount_point, listener))
}

fn read_requests(session: &Arc<Session>, by_journal: bool) -> io::Result<()> {
    for reader in 0..READERS {
        let Some(mut slot) = session.journal.request(reader) else {
            continue;
        };
        if !by_journal {
            slot.clear();
        }
        let session = Arc::clone(session);
        std::thread::Builder::new()
            .name("reader".to_owned())
            .stack_size(STACK_SIZE)
            .spawn(move || reader::run(&session, slot))?;
    }
    Ok(())
}

/// Redirects standard error to a file in the directory.
fn divert_errors(directory: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(directory.join(LOG_NAME))?;
    Ok(dup2_stderr(file.as_fd())?)
}

fn raise_open_files() -> rustix::io::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit)
}

fn listen_in(directory: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(directory, flags, Mode::empty())?;
    match unlinkat(&directory, LAZY_SOCKET_NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    // A socket address only has space for a short path.
    let path = format!("/proc/self/fd/{}/{LAZY_SOCKET_NAME}", directory.as_raw_fd());
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, ACCEPT_QUEUE)?;
    Ok(socket)
}
