//! Messages between the child of a clone and its parent, over a socket pair. The child allocates nothing: it sends
//! numbers, and the parent finds the text.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// A step of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Parent,
    Intermediate,
    Cgroup,
    Rlimit,
    OomScoreAdj,
    Users,
    Time,
    Join,
    Session,
    CgroupNamespace,
    Loopback,
    HostPropagation,
    PlaceRoot,
    MountSource,
    MountIds,
    MountTarget,
    Mount,
    MountInProc,
    MountOptions,
    MountPropagation,
    CopyUp,
    Device,
    DevLinks,
    Terminal,
    ReadOnlyMount,
    Mask,
    ReadOnlyPath,
    ReadOnlyRoot,
    Pivot,
    RootPropagation,
    Hostname,
    Domainname,
    Proc,
    Sysctl,
    Label,
    Scheduler,
    IoPriority,
    MemoryPolicy,
    Personality,
    Affinity,
    Streams,
    Null,
    NoNewPrivileges,
    Bounding,
    WorkingDirectory,
    WorkingDirectoryOutside,
    Groups,
    Capabilities,
    Ambient,
    Seccomp,
    ProgramMissing,
    Program,
    Fifo,
    CreateHook,
    StartHook,
    Execute,
}

/// All steps, by their numbers.
const STEPS: [Step; 56] = {
    use Step as S;
    [
        S::Parent,
        S::Intermediate,
        S::Cgroup,
        S::Rlimit,
        S::OomScoreAdj,
        S::Users,
        S::Time,
        S::Join,
        S::Session,
        S::CgroupNamespace,
        S::Loopback,
        S::HostPropagation,
        S::PlaceRoot,
        S::MountSource,
        S::MountIds,
        S::MountTarget,
        S::Mount,
        S::MountInProc,
        S::MountOptions,
        S::MountPropagation,
        S::CopyUp,
        S::Device,
        S::DevLinks,
        S::Terminal,
        S::ReadOnlyMount,
        S::Mask,
        S::ReadOnlyPath,
        S::ReadOnlyRoot,
        S::Pivot,
        S::RootPropagation,
        S::Hostname,
        S::Domainname,
        S::Proc,
        S::Sysctl,
        S::Label,
        S::Scheduler,
        S::IoPriority,
        S::MemoryPolicy,
        S::Personality,
        S::Affinity,
        S::Streams,
        S::Null,
        S::NoNewPrivileges,
        S::Bounding,
        S::WorkingDirectory,
        S::WorkingDirectoryOutside,
        S::Groups,
        S::Capabilities,
        S::Ambient,
        S::Seccomp,
        S::ProgramMissing,
        S::Program,
        S::Fifo,
        S::CreateHook,
        S::StartHook,
        S::Execute,
    ]
};

/// The step that failed, and its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) step: Step,
    /// The index of the item in that step.
    pub(crate) index: u16,
    pub(crate) errno: Errno,
}

/// Adds the failed step to the error of a system call.
pub(crate) trait At<T> {
    fn at(self, step: Step) -> Result<T, Fault>;
    fn at_index(self, step: Step, index: u16) -> Result<T, Fault>;
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, step: Step) -> Result<T, Fault> {
        self.at_index(step, 0)
    }

    fn at_index(self, step: Step, index: u16) -> Result<T, Fault> {
        self.map_err(|errno| Fault { step, index, errno })
    }
}

/// A message of the child.
#[derive(Debug)]
pub(crate) enum Word {
    /// The child failed and exits.
    Failed(Fault),
    /// Another process with this PID replaces the child (`CLONE_PARENT`).
    Made(i32),
    /// The next child has its own time namespace, whose clocks must be set.
    Timed,
    /// The namespaces exist, and are still unchanged.
    Namespaced,
    /// A new file system, and the directory whose content must be copied into it.
    CopyUp(OwnedFd, OwnedFd),
    /// The child requests the source of the mount with this index, as found in the container's mount namespace.
    Source(u16),
    /// The descriptor for seccomp notifications.
    Listener(OwnedFd),
    /// Everything is done up to the program's start.
    Ready,
    /// A step is done; sent only when tracing.
    Did(Step, u16),
    /// The container has no null device: the child requests the host's, if it is a standard stream.
    Null,
}

/// One end of the socket pair.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    /// Whether each step is reported.
    traces: bool,
}

const LENGTH: usize = 8;

impl Channel {
    /// Creates both ends; `traces` enables the report of each step.
    pub(crate) fn pair(traces: bool) -> rustix::io::Result<(Self, Self)> {
        let (one, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let end = |socket| Self { socket, traces };
        Ok((end(one), end(other)))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message of the child.
    pub(crate) fn tell(&self, word: &Word) -> rustix::io::Result<()> {
        let mut message = [0u8; LENGTH];
        let mut fds: [Option<BorrowedFd<'_>>; 2] = [None, None];
        match word {
            Word::Failed(fault) => {
                message[0] = 1;
                message[1] = fault.step as u8;
                message[2..4].copy_from_slice(&fault.index.to_ne_bytes());
                message[4..8].copy_from_slice(&fault.errno.raw_os_error().to_ne_bytes());
            }
            Word::Made(pid) => {
                message[0] = 2;
                message[4..8].copy_from_slice(&pid.to_ne_bytes());
            }
            Word::Namespaced => message[0] = 3,
            Word::CopyUp(to, from) => {
                message[0] = 4;
                fds = [Some(to.as_fd()), Some(from.as_fd())];
            }
            Word::Listener(fd) => {
                message[0] = 5;
                fds[0] = Some(fd.as_fd());
            }
            Word::Ready => message[0] = 6,
            Word::Null => message[0] = 10,
            Word::Timed => message[0] = 8,
            Word::Did(step, index) => {
                message[0] = 9;
                message[1] = *step as u8;
                message[2..4].copy_from_slice(&index.to_ne_bytes());
            }
            Word::Source(index) => {
                message[0] = 7;
                message[2..4].copy_from_slice(&index.to_ne_bytes());
            }
        }
        self.send(&message, fds)
    }

    /// Reports a finished step, when tracing.
    pub(crate) fn did(&self, step: Step, index: u16) {
        if self.traces {
            // A lost trace message is harmless.
            let _ = self.tell(&Word::Did(step, index));
        }
    }

    fn send(&self, message: &[u8], fds: [Option<BorrowedFd<'_>>; 2]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let both;
        let one;
        match fds {
            [Some(first), Some(second)] => {
                both = [first, second];
                control.push(SendAncillaryMessage::ScmRights(&both));
            }
            [Some(first), None] => {
                one = [first];
                control.push(SendAncillaryMessage::ScmRights(&one));
            }
            _ => {}
        }
        sendmsg(
            &self.socket,
            &[IoSlice::new(message)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .map(drop)
    }

    /// Lets the child continue.
    pub(crate) fn go_on(&self) -> rustix::io::Result<()> {
        self.send(&[0], [None, None])
    }

    /// Sends a descriptor to the child.
    pub(crate) fn give(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.send(&[0], [Some(fd), None])
    }

    /// Waits for a requested descriptor.
    pub(crate) fn take(&self) -> rustix::io::Result<OwnedFd> {
        let mut byte = [0u8; 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        if self.receive(&mut byte, &mut control)? == 0 {
            return Err(Errno::PIPE);
        }
        descriptors(&mut control).next().ok_or(Errno::BADMSG)
    }

    /// Waits for the parent's message; a closed channel is an error.
    pub(crate) fn wait(&self) -> rustix::io::Result<()> {
        let mut byte = [0u8; 1];
        loop {
            return match rustix::io::read(&self.socket, &mut byte) {
                Ok(0) => Err(Errno::PIPE),
                Ok(_) => Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Receives the child's next message; `None` when it is done or dead.
    pub(crate) fn hear(&self) -> rustix::io::Result<Option<Word>> {
        let mut message = [0u8; LENGTH];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        if self.receive(&mut message, &mut control)? == 0 {
            return Ok(None);
        }
        let mut fds = descriptors(&mut control);
        let index = u16::from_ne_bytes([message[2], message[3]]);
        let step = || STEPS.get(usize::from(message[1])).copied();
        let number = i32::from_ne_bytes([message[4], message[5], message[6], message[7]]);
        let word = match message[0] {
            1 => Word::Failed(Fault {
                step: step().unwrap_or(Step::Parent),
                index,
                errno: Errno::from_raw_os_error(number),
            }),
            2 => Word::Made(number),
            3 => Word::Namespaced,
            4 => match (fds.next(), fds.next()) {
                (Some(to), Some(from)) => Word::CopyUp(to, from),
                _ => return Err(Errno::BADMSG),
            },
            5 => Word::Listener(fds.next().ok_or(Errno::BADMSG)?),
            6 => Word::Ready,
            8 => Word::Timed,
            10 => Word::Null,
            7 => Word::Source(index),
            9 => Word::Did(step().ok_or(Errno::BADMSG)?, index),
            _ => return Err(Errno::BADMSG),
        };
        Ok(Some(word))
    }

    /// Receives a message; returns its length, 0 at the end.
    fn receive(
        &self,
        message: &mut [u8],
        control: &mut RecvAncillaryBuffer<'_>,
    ) -> rustix::io::Result<usize> {
        loop {
            let mut parts = [IoSliceMut::new(message)];
            match recvmsg(&self.socket, &mut parts, control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                received => return Ok(received?.bytes),
            }
        }
    }
}

fn descriptors(control: &mut RecvAncillaryBuffer<'_>) -> impl Iterator<Item = OwnedFd> {
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    fds.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_as_they_were_told() {
        let (parent, child) = Channel::pair(false).unwrap();
        for (number, &step) in STEPS.iter().enumerate() {
            assert_eq!(step as usize, number, "{step:?}");
        }
        let fault = Fault {
            step: Step::Execute,
            index: 700,
            errno: Errno::NOENT,
        };
        child.tell(&Word::Failed(fault)).unwrap();
        assert!(matches!(parent.hear().unwrap(), Some(Word::Failed(heard)) if heard == fault));
        let (one, other) = rustix::pipe::pipe().unwrap();
        child.tell(&Word::CopyUp(one, other)).unwrap();
        assert!(matches!(parent.hear().unwrap(), Some(Word::CopyUp(..))));
        parent.go_on().unwrap();
        child.wait().unwrap();
        child.did(Step::Mount, 3);
        child.tell(&Word::Null).unwrap();
        assert!(matches!(parent.hear().unwrap(), Some(Word::Null)));
        drop(child);
        assert!(parent.hear().unwrap().is_none());
        let (parent, child) = Channel::pair(true).unwrap();
        child.did(Step::Mount, 700);
        assert!(matches!(
            parent.hear().unwrap(),
            Some(Word::Did(Step::Mount, 700))
        ));
    }
}
