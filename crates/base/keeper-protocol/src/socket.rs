//! Bytes and descriptors through a stream socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, Result, retry_on_intr};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, accept_with, recvmsg, sendmsg,
};

use crate::frame::{Frame, FrameBuffer, MAX_FDS};

/// After so long there may be a descriptor for a peer that none was left for. To listen on meanwhile would be to be
/// told of it at once, and for ever.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// The next peer of our own user that waits at a listener which does not block; none where nobody does. An error is
/// of what is needed to serve whoever waits.
pub fn accept(listener: impl AsFd) -> Result<Option<OwnedFd>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        let socket = match accept_with(&listener, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(error) => return Err(error),
        };
        // The socket's mode, or its directory's, says so already; a descriptor may have been passed on.
        let own = rustix::process::geteuid();
        if socket_peercred(&socket).is_ok_and(|peer| peer.uid == own) {
            return Ok(Some(socket));
        }
    }
}

/// Sends as many of `bytes` as the socket takes, with `fds` beside the first one.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    retry_on_intr(|| {
        sendmsg(
            &socket,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )
    })
}

/// Waits for the first frame that comes. What came behind it is in the buffer. Nothing, where the peer ends
/// or sends none.
#[inline(never)]
pub fn first_frame(socket: impl AsFd) -> Option<(Frame, FrameBuffer)> {
    let mut buffer = FrameBuffer::new();
    let mut bytes = [0; 4096];
    loop {
        let (count, fds) = recv(&socket, &mut bytes).ok()?;
        if count == 0 {
            return None;
        }
        buffer.push(&bytes[..count], fds);
        if let Some(frame) = buffer.pop().ok()? {
            return Some((frame, buffer));
        }
    }
}

/// Receives what is there: the count of bytes (0 at the end) and the descriptors beside them.
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    // Room for more than a frame's descriptors, so that a surplus is seen and not cut off.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS * 4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = retry_on_intr(|| {
        recvmsg(
            &socket,
            &mut [IoSliceMut::new(buffer)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let mut fds = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            fds.extend(received);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::TOOMANYREFS);
    }
    Ok((message.bytes, fds))
}
