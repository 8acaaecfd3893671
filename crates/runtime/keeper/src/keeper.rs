//! The keeper: its tables and the methods that all its parts use.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use orlop_keeper_protocol::{Body, Failure, FrameBuffer, SOCKET_NAME};
use rustix::fs::{AtFlags, Mode, unlinkat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::umask;

use crate::attachment::Attachment;
use crate::call::Call;
use crate::child::{Process, Stranger};
use crate::closing::Closing;
use crate::connection::{Connection, ReplyTo};
use crate::container::{Container, Session};
use crate::detached::LettingGo;
use crate::log::{Log, Writer};
use crate::null::Nulls;
use crate::pod::Pod;
use crate::port_connection::Dialling;
use crate::reactor::{Interest, Reactor, Source, Watch};

/// Limit of connections that wait to be accepted.
const ACCEPT_QUEUE: i32 = 16;

/// Number of bytes of a container's output that are read at a time.
const READ_SIZE: usize = 16 * 1024;

/// A pod's keeper. The keys of its tables are numbers that are never reused.
pub(crate) struct Keeper {
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) pod: Pod,
    pub(crate) children: Watch,
    pub(crate) listener: Watch,
    /// When the keeper accepts connections again after a failure.
    pub(crate) deaf_until: Option<Instant>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) containers: BTreeMap<u64, Container>,
    /// Exec sessions, oldest first.
    pub(crate) sessions: VecDeque<Session>,
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) attachments: BTreeMap<u64, Attachment>,
    pub(crate) dials: BTreeMap<u64, Dialling>,
    /// Containers that were released and have not confirmed it, by their keys.
    pub(crate) letting_go: BTreeMap<u64, LettingGo>,
    /// The roles of our children, by PID.
    pub(crate) processes: BTreeMap<i32, Process>,
    /// Children that ended before the keeper knew their role.
    pub(crate) strangers: VecDeque<Stranger>,
    pub(crate) writer: Option<(Writer, Watch)>,
    /// Logs of removed containers, until all is written.
    pub(crate) lingering: BTreeMap<u64, Log>,
    pub(crate) ending: Option<Ending>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) nulls: Nulls,
    pub(crate) closing: Closing,
    next_key: u64,
}

/// A shutdown in progress.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) deadline: Instant,
    pub(crate) reply_to: ReplyTo,
}

impl Keeper {
    /// Creates a keeper whose first connection is `socket`, with the bytes in `incoming` read already; replies to the
    /// daemon's first request.
    #[inline(never)]
    pub(crate) fn new(
        mut pod: Pod,
        children: OwnedFd,
        socket: OwnedFd,
        incoming: FrameBuffer,
        request: u32,
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let children = Watch::new(&reactor, children, Source::Children, Interest::Read)?;
        let listener = listen_in(&pod)?;
        pod.unlock()?;
        let listener = Watch::new(&reactor, listener, Source::Listener, Interest::Read)?;
        let mut closing = Closing::default();
        closing.later(pod.parameters.take());
        let mut keeper = Self {
            reactor,
            pod,
            children,
            listener,
            deaf_until: None,
            connections: BTreeMap::new(),
            containers: BTreeMap::new(),
            sessions: VecDeque::new(),
            calls: BTreeMap::new(),
            attachments: BTreeMap::new(),
            dials: BTreeMap::new(),
            letting_go: BTreeMap::new(),
            processes: BTreeMap::new(),
            strangers: VecDeque::new(),
            writer: None,
            lingering: BTreeMap::new(),
            ending: None,
            scratch: Vec::new(),
            nulls: Nulls::default(),
            closing,
            next_key: 1,
        };
        if let Some(init) = keeper.pod.init {
            keeper.processes.insert(init.as_raw_pid(), Process::Init);
        }
        let connection = keeper.add_connection(socket, incoming)?;
        let welcome = keeper.pod.welcome();
        let reply_to = ReplyTo {
            connection,
            request,
        };
        keeper.reply(reply_to, Ok(welcome));
        keeper.take_requests(connection, Ok(()));
        Ok(keeper)
    }

    /// Adds a connection; returns its key.
    pub(crate) fn add_connection(
        &mut self,
        socket: OwnedFd,
        incoming: FrameBuffer,
    ) -> io::Result<u64> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let key = self.key();
        let source = Source::Connection(key);
        let watch = Watch::new(&self.reactor, socket, source, Interest::Read)?;
        let connection = Connection::new(watch, incoming);
        self.connections.insert(key, connection);
        Ok(key)
    }

    /// Replies to a request. It is no error if the client is gone.
    pub(crate) fn reply<B: Body>(&mut self, to: ReplyTo, answer: Result<B, Failure>) {
        self.reply_with(to, answer.map(|body| (body, Vec::new())));
    }

    /// Replies to a request with descriptors.
    pub(crate) fn reply_with<B: Body>(
        &mut self,
        to: ReplyTo,
        answer: Result<(B, Vec<OwnedFd>), Failure>,
    ) {
        let Some(connection) = self.connections.get_mut(&to.connection) else {
            return;
        };
        let sent = match answer {
            Ok((body, fds)) => connection.send(&body, to.request, fds),
            Err(failure) => connection.send(&failure, to.request, Vec::new()),
        };
        if sent.is_err() {
            self.connections.remove(&to.connection);
        }
    }

    /// Returns whether the connection that a reply goes to still exists.
    pub(crate) fn hears(&self, to: ReplyTo) -> bool {
        self.connections.contains_key(&to.connection)
    }

    /// Sends an event to all subscribers.
    pub(crate) fn tell<B: Body>(&mut self, event: &B) {
        self.connections.retain(|_, connection| {
            !connection.subscribed || connection.send(event, 0, Vec::new()).is_ok()
        });
    }

    /// Returns a key that was never used.
    pub(crate) fn key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }

    /// Returns the key of the container with this ID.
    pub(crate) fn container_key(&self, id: &str) -> Option<u64> {
        let mut containers = self.containers.iter();
        containers.find_map(|(key, container)| (container.id == id).then_some(*key))
    }

    /// Takes the shared read buffer, which the caller puts back.
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(READ_SIZE, 0);
        scratch
    }
}

fn listen_in(pod: &Pod) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let _ = unlinkat(&pod.dir, SOCKET_NAME, AtFlags::empty());
    let address = SocketAddrUnix::new(pod.short_path(SOCKET_NAME))?;
    let usual = umask(Mode::from_bits_truncate(0o177));
    let bound = bind(&socket, &address);
    umask(usual);
    bound?;
    listen(&socket, ACCEPT_QUEUE)?;
    Ok(socket)
}
