//! Sends and receives bytes and descriptors over a stream socket.

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

/// Pause after a connection could not be accepted for lack of descriptors. Without the pause the listener
/// would stay readable and the loop would spin.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Accepts the next connection of our own user from a non-blocking listener; `None` if none is waiting. An error means
/// a lack of resources to serve it.
pub fn accept(listener: impl AsFd) -> Result<Option<OwnedFd>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        let socket = match accept_with(&listener, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(error) => return Err(error),
        };
        // The mode of the socket or its directory already enforces this, but a descriptor may have been passed on.
        let own = rustix::process::geteuid();
        if socket_peercred(&socket).is_ok_and(|peer| peer.uid == own) {
            return Ok(Some(socket));
        }
    }
}

/// Sends as many of `bytes` as the socket accepts, with `fds` attached to the first one.
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

/// Waits for the first frame. Data after it stays in the buffer. Returns `None` if the peer closes the connection or
/// sends no valid frame.
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

/// Receives available data: the number of bytes (0 at the end) and the descriptors sent with them.
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    // Space for more than a frame's descriptors, so that extra ones are detected and not cut off.
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
