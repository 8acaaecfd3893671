//! Sends and receives descriptors over sockets.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{IoSlice, IoSliceMut, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends bytes and a descriptor.
pub(crate) fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], fd: BorrowedFd<'_>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .map(drop)
}

/// Receives the next descriptor.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    receive_with(socket).map(|(fd, _)| fd)
}

/// Receives the next message: bytes, and a descriptor if there is one.
pub(crate) fn receive_with(socket: BorrowedFd<'_>) -> Result<(Option<OwnedFd>, Vec<u8>)> {
    let mut bytes = vec![0u8; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fds = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    bytes.truncate(received.bytes);
    Ok((fds, bytes))
}
