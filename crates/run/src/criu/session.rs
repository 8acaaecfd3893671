//! A run of `criu swrk`: requests and answers over a pair of sockets.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags, IoSliceMut, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair,
};

use super::request::{Answer, Kind, feature_check, noticed};
use crate::error::{Error, Result, While};
use crate::search;
use crate::sys::wait_for;

/// The longest answer.
const ANSWER_MAX: usize = 40 << 10;

/// A CRIU that takes requests, and is waited for when this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: Option<OwnedFd>,
    pid: i32,
}

/// What CRIU tells on its way, with the descriptor that it sends along.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) name: String,
    pub(super) pid: i32,
    pub(super) file: Option<OwnedFd>,
}

/// Both ends of what requests and answers go by: ours, and CRIU's.
pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .doing(|| "cannot create a socket pair".to_owned())
}

/// The program, where it is in `PATH`.
pub(super) fn program() -> Result<PathBuf> {
    search::program("criu").ok_or_else(|| {
        Error::new(
            "exec: \"criu\": executable file not found in $PATH; install CRIU (https://criu.org)",
        )
    })
}

impl Session {
    /// Starts one without standard streams, to which all is our own that is not told.
    pub(super) fn start() -> Result<Self> {
        let (ours, theirs) = sockets()?;
        fcntl_setfd(&theirs, FdFlags::empty())
            .doing(|| "cannot pass a socket to CRIU".to_owned())?;
        let child = Command::new(program()?)
            .arg("swrk")
            .arg(theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .doing(|| "cannot execute CRIU".to_owned())?;
        Ok(Self::of(Some(ours), child.id() as i32))
    }

    /// Of a process that becomes CRIU.
    pub(super) fn of(socket: Option<OwnedFd>, pid: i32) -> Self {
        Self { socket, pid }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Asks for something, and hears notices until it is done.
    pub(super) fn ask(
        &self,
        request: &[u8],
        on_notice: &mut dyn FnMut(Notice) -> Result<()>,
    ) -> Result<Answer> {
        self.send(request)?;
        loop {
            let (answer, file) = self.receive()?;
            if !answer.success {
                let (kind, errno) = (answer.kind.name(), answer.errno);
                // Its own text is the first thing that it noticed, rarely what it failed by.
                let text = format!("criu failed: type {kind} errno {errno}");
                return Err(Error::new(text));
            }
            if answer.kind != Kind::NOTIFY {
                return Ok(answer);
            }
            on_notice(Notice {
                name: answer.notice,
                pid: answer.pid,
                file,
            })?;
            self.send(&noticed())?;
        }
    }

    /// Waits for its end; its exit code.
    pub(super) fn end(mut self) -> Result<i32> {
        self.socket = None;
        let pid = std::mem::take(&mut self.pid);
        wait_for(pid).doing(|| "waiting for CRIU".to_owned())
    }

    fn send(&self, message: &[u8]) -> Result<()> {
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        let sent = socket.map_or(Err(Errno::PIPE), |socket| {
            send(socket, message, SendFlags::NOSIGNAL)
        });
        sent.doing(|| "sending a request to CRIU".to_owned())
            .map(drop)
    }

    fn receive(&self) -> Result<(Answer, Option<OwnedFd>)> {
        let told = || "reading a response from CRIU".to_owned();
        let socket = self.socket.as_ref().ok_or(Errno::PIPE).doing(told)?;
        let mut message = vec![0; ANSWER_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let count = loop {
            let mut parts = [IoSliceMut::new(&mut message)];
            match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                received => break received.doing(told)?.bytes,
            }
        };
        if count == 0 {
            return Err(Error::new("CRIU exited before it completed the request"));
        }
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok((Answer::parse(&message[..count])?, file))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without us it gives up.
        self.socket = None;
        if self.pid != 0 {
            let _ = wait_for(self.pid);
        }
    }
}

/// Refuses what CRIU or the kernel cannot do: a feature by the number of its field, and its name.
pub(super) fn require(feature: u32, name: &str) -> Result<()> {
    let session = Session::start()?;
    let answer = session.ask(&feature_check(feature), &mut |_| Ok(()));
    let answer = answer.map_err(|error| error.within("CRIU feature check failed"))?;
    if answer.features.contains(&feature) {
        return Ok(());
    }
    Err(Error::new(format!("criu is missing features: [{name}]")))
}
