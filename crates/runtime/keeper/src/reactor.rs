//! Waits for events on descriptors with epoll.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

/// Maximum number of events that are read at a time.
const BATCH: usize = 32;

/// The meaning of a watched descriptor. The numbers are keys of the keeper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A child has ended.
    Children,
    /// A client connects.
    Listener,
    /// A connection to the daemon.
    Connection(u64),
    /// A container writes output.
    Output(u64, Stream),
    /// A container's standard input accepts more.
    Input(u64),
    /// A runtime prints.
    CallOutput(u64),
    /// A runtime has a terminal to hand over.
    Console(u64),
    /// An attached client sends input.
    AttachInput(u64),
    /// An attached client accepts more output.
    AttachOutput(u64, Stream),
    /// The log thread has results.
    LogWriter,
    /// The OOM killer may have killed a process in a container's cgroup.
    Oom(u64),
    /// A connection to a port of the pod is established or has failed.
    Dial(u64),
    /// A container's process confirms that it was released.
    StartFifo(u64),
}

/// One of a container's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output, or the terminal.
    Out,
    /// Standard error.
    Err,
}

/// Waits for events on any number of descriptors.
#[derive(Debug)]
pub(crate) struct Reactor {
    epoll: OwnedFd,
    sources: RefCell<BTreeMap<u64, Source>>,
    next: Cell<u64>,
}

impl Reactor {
    pub(crate) fn new() -> rustix::io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sources: RefCell::default(),
            next: Cell::new(1),
        }))
    }

    /// Waits until an event arrives or the time limit is over.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Vec<Ready> {
        let mut events = Vec::with_capacity(BATCH);
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        // Interrupted by a signal: its effect is readable by now.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), limit.as_ref());
        events
            .iter()
            .map(|event| Ready {
                token: event.data.u64(),
                flags: event.flags,
            })
            .collect()
    }

    /// Returns the source of an event, if it is still watched.
    pub(crate) fn source(&self, ready: &Ready) -> Option<Source> {
        self.sources.borrow().get(&ready.token).copied()
    }
}

/// An event on a descriptor.
#[derive(Debug)]
pub(crate) struct Ready {
    token: u64,
    flags: EventFlags,
}

impl Ready {
    /// Returns whether a read will return data, the end, or an error.
    pub(crate) fn readable(&self) -> bool {
        let flags = EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        self.flags.intersects(flags)
    }

    /// Returns whether a write will make progress or fail.
    pub(crate) fn writable(&self) -> bool {
        let flags = EventFlags::OUT | EventFlags::ERR | EventFlags::HUP;
        self.flags.intersects(flags)
    }

    /// Returns whether the other end is closed.
    pub(crate) fn broken(&self) -> bool {
        self.flags.intersects(EventFlags::ERR | EventFlags::HUP)
    }
}

/// The events to wait for. Errors and hang-ups are always included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// No other event.
    Nothing,
    /// Data to read.
    Read,
    /// Space to write.
    Write,
    /// Data to read or space to write.
    ReadWrite,
    /// A change of a kernel file that is always readable.
    Priority,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Nothing => EventFlags::empty(),
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::ReadWrite => EventFlags::IN | EventFlags::OUT,
            Self::Priority => EventFlags::PRI,
        }
    }
}

/// A watched descriptor. Dropping it closes it and removes it from the reactor.
#[derive(Debug)]
pub(crate) struct Watch {
    reactor: Rc<Reactor>,
    fd: OwnedFd,
    token: u64,
    interest: Cell<Interest>,
}

impl Watch {
    pub(crate) fn new(
        reactor: &Rc<Reactor>,
        fd: OwnedFd,
        source: Source,
        interest: Interest,
    ) -> rustix::io::Result<Self> {
        let token = reactor.next.get();
        let data = EventData::new_u64(token);
        epoll::add(&reactor.epoll, &fd, data, interest.flags())?;
        reactor.next.set(token + 1);
        reactor.sources.borrow_mut().insert(token, source);
        Ok(Self {
            reactor: Rc::clone(reactor),
            fd,
            token,
            interest: Cell::new(interest),
        })
    }

    /// Changes the events to wait for.
    pub(crate) fn set(&self, interest: Interest) {
        if self.interest.replace(interest) != interest {
            let data = EventData::new_u64(self.token);
            let result = epoll::modify(&self.reactor.epoll, &self.fd, data, interest.flags());
            debug_assert!(result.is_ok() || result == Err(Errno::NOMEM));
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reactor.sources.borrow_mut().remove(&self.token);
        // Closing is not enough: the process that sent the descriptor may still hold it open.
        let _ = epoll::delete(&self.reactor.epoll, &self.fd);
    }
}
