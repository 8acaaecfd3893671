//! A session with `criu swrk`: requests and responses over a socket pair.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use prost::Message;
use rustix::io::{Errno, FdFlags, IoSliceMut, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair,
};

use super::request::{feature_check, noticed};
use super::rpc::{CriuFeatures, CriuReq, CriuReqType, CriuResp};
use crate::error::{Error, Result, While};
use crate::search;
use crate::sys::wait_for;

/// The longest response, which bounds the memory for decoding.
const ANSWER_MAX: usize = 40 << 10;

/// A CRIU process that takes requests. Dropping this waits for its exit.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: Option<OwnedFd>,
    pid: i32,
}

/// A notification from CRIU, with the descriptor sent with it.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) name: String,
    pub(super) pid: i32,
    pub(super) file: Option<OwnedFd>,
}

/// Creates both ends of the request socket: ours, and CRIU's.
pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .doing(|| "cannot create a socket pair".to_owned())
}

/// Returns the path of the program in `PATH`.
pub(super) fn program() -> Result<PathBuf> {
    search::program("criu").ok_or_else(|| {
        Error::new(
            "exec: \"criu\": executable file not found in $PATH; install CRIU (https://criu.org)",
        )
    })
}

impl Session {
    /// Starts CRIU without standard streams and without other inherited state.
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

    /// Returns a session with a process that becomes CRIU.
    pub(super) fn of(socket: Option<OwnedFd>, pid: i32) -> Self {
        Self { socket, pid }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a request, and handles notifications until it is done.
    pub(super) fn ask(
        &self,
        request: &CriuReq,
        on_notice: &mut dyn FnMut(Notice) -> Result<()>,
    ) -> Result<CriuResp> {
        self.send(request)?;
        loop {
            let (answer, file) = self.receive()?;
            if !answer.success {
                let (kind, errno) = (kind_of(&answer), answer.cr_errno());
                // CRIU's own message names the first problem it noticed, rarely the cause.
                let text = format!("criu failed: type {kind} errno {errno}");
                return Err(Error::new(text));
            }
            if answer.r#type() != CriuReqType::Notify {
                return Ok(answer);
            }
            let notify = answer.notify.unwrap_or_default();
            on_notice(Notice {
                pid: notify.pid(),
                name: notify.script.unwrap_or_default(),
                file,
            })?;
            self.send(&noticed())?;
        }
    }

    /// Waits for its exit; returns the exit code.
    pub(super) fn end(mut self) -> Result<i32> {
        self.socket = None;
        let pid = std::mem::take(&mut self.pid);
        wait_for(pid).doing(|| "waiting for CRIU".to_owned())
    }

    fn send(&self, request: &CriuReq) -> Result<()> {
        let message = request.encode_to_vec();
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        let sent = socket.map_or(Err(Errno::PIPE), |socket| {
            send(socket, &message, SendFlags::NOSIGNAL)
        });
        sent.doing(|| "sending a request to CRIU".to_owned())
            .map(drop)
    }

    fn receive(&self) -> Result<(CriuResp, Option<OwnedFd>)> {
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
        Ok((parse(&message[..count])?, file))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without the socket CRIU gives up.
        self.socket = None;
        if self.pid != 0 {
            let _ = wait_for(self.pid);
        }
    }
}

fn parse(answer: &[u8]) -> Result<CriuResp> {
    CriuResp::decode(answer)
        .map_err(|error| Error::new(format!("unable to parse the response of CRIU: {error}")))
}

/// Returns the name of a response type; its number if it is unknown.
fn kind_of(answer: &CriuResp) -> String {
    match CriuReqType::try_from(answer.r#type) {
        Ok(kind) => kind.as_str_name().to_owned(),
        Err(_) => answer.r#type.to_string(),
    }
}

/// Fails if CRIU or the kernel lacks features; `name` is used in the error.
pub(super) fn require(features: CriuFeatures, name: &str) -> Result<()> {
    let session = Session::start()?;
    let answer = session.ask(&feature_check(features), &mut |_| Ok(()));
    let answer = answer.map_err(|error| error.within("CRIU feature check failed"))?;
    let found = answer.features.unwrap_or_default();
    if found.mem_track() >= features.mem_track() && found.lazy_pages() >= features.lazy_pages() {
        return Ok(());
    }
    Err(Error::new(format!("criu is missing features: [{name}]")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::criu::rpc::CriuNotify;

    #[test]
    fn an_answer_is_understood() {
        let notice = CriuResp {
            r#type: CriuReqType::Notify.into(),
            success: true,
            notify: Some(CriuNotify {
                script: Some("post-restore".into()),
                pid: Some(4711),
            }),
            ..CriuResp::default()
        };
        let bytes = notice.encode_to_vec();
        // Field 9 is the error text, and field 99 is one of a later version.
        let with_more = [&bytes[..], b"\x4a\x02no\x98\x06\x01"].concat();
        assert_eq!(parse(&with_more).unwrap(), notice);
        assert!(parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(parse(&[0x80; 20]).is_err());
        let kind = |number| {
            kind_of(&CriuResp {
                r#type: number,
                ..CriuResp::default()
            })
        };
        assert_eq!(kind(13), "SINGLE_PRE_DUMP");
        assert_eq!(kind(99), "99");
    }
}
