//! The control thread: it sends fetches and failures to the daemon, and handles the daemon's requests.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_keeper_protocol::{
    ACCEPT_AGAIN, AddLayer, Body, Done, Failure, FailureKind, Fetch, FetchAnswer, Frame,
    FrameBuffer, LAZY_VERSION, LayerInfo, LayerListing, LazyHello, LazyReady, LazyStop,
    LazySubscribe, ListLayers, Malformed, Message, ReadFailed, RemoveLayer,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::time::Timespec;

use crate::answer::Answers;
use crate::connection::{Connection, Ended};
use crate::failure::failure;
use crate::fuse;
use crate::session::Session;
use crate::waiting::{Released, Wanted};

/// Maximum number of connections.
const CONNECTIONS_MOST: usize = 16;

/// Interval of the checks of readers that received a signal which did not kill them.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The state of the control thread.
#[derive(Debug)]
pub(crate) struct Control {
    session: Arc<Session>,
    mount_point: PathBuf,
    listener: OwnedFd,
    /// When the thread accepts connections again after an error.
    deaf_until: Option<Instant>,
    connections: BTreeMap<u64, Connection>,
    /// The connection that receives the fetches.
    subscriber: Option<u64>,
    next_key: u64,
    answers: Answers,
    stop: Option<Stop>,
}

/// The reason for which a server stops.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// A successor continues the session.
    ForSuccessor,
    /// The session ends.
    ForGood,
}

impl Control {
    pub(crate) fn new(session: Arc<Session>, mount_point: PathBuf, listener: OwnedFd) -> Self {
        Self {
            session,
            mount_point,
            listener,
            deaf_until: None,
            connections: BTreeMap::new(),
            subscriber: None,
            next_key: 1,
            answers: Answers::default(),
            stop: None,
        }
    }

    /// Adds the connection of the daemon that started the server, and answers its first request.
    pub(crate) fn begin(&mut self, socket: OwnedFd, incoming: FrameBuffer, request: u32) {
        if let Some(key) = self.add_connection(socket, incoming) {
            let sent = self.welcome(key, request);
            self.take_requests(key, sent);
        }
    }

    /// Serves until the session ends or a daemon stops the server.
    pub(crate) fn run(mut self) -> ExitCode {
        loop {
            let ready = self.wait();
            for key in ready {
                match key {
                    Ready::Listener => self.accept(),
                    Ready::Bell => {
                        let _ = rustix::io::read(&self.session.bell, &mut [0_u8; 8]);
                    }
                    Ready::Connection(key) => self.connection_ready(key),
                }
            }
            self.look_at_signalled();
            self.late();
            self.ask();
            match self.stop {
                None => {}
                Some(Stop::ForSuccessor) => return ExitCode::SUCCESS,
                Some(Stop::ForGood) => return self.linger(),
            }
            if self.session.is_over() {
                eprintln!("orlop-lazy: the file system was unmounted");
                return ExitCode::FAILURE;
            }
        }
    }

    /// Answers reads of present parts until the file system is unused. All connections are closed.
    fn linger(self) -> ExitCode {
        let Self {
            session,
            listener,
            connections,
            ..
        } = self;
        drop((listener, connections));
        while !session.is_over() {
            let mut fds = [PollFd::new(&session.bell, PollFlags::IN)];
            if poll(&mut fds, None).is_ok() {
                let _ = rustix::io::read(&session.bell, &mut [0_u8; 8]);
            }
        }
        ExitCode::SUCCESS
    }

    fn wait(&self) -> Vec<Ready> {
        let limit = self.limit().map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let bell = self.session.bell.as_fd();
        let mut what = vec![Ready::Bell];
        let mut fds = vec![PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        if self.deaf_until.is_none_or(|until| until <= Instant::now()) {
            what.push(Ready::Listener);
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for (key, connection) in &self.connections {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, connection.is_behind());
            what.push(Ready::Connection(*key));
            fds.push(PollFd::new(connection, flags));
        }
        // A signal interrupted the call: nothing is ready.
        if poll(&mut fds, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = what.into_iter().zip(&fds);
        let ready = ready.filter(|(_, fd)| !fd.revents().is_empty());
        ready.map(|(what, _)| what).collect()
    }

    /// Returns the time until the next timeout; `None` if there is none, for example without readers.
    fn limit(&self) -> Option<Duration> {
        let waiting = self.session.waiting.lock();
        let signalled = !waiting.watched().is_empty();
        let late = waiting.next_deadline();
        let now = Instant::now();
        // A time in the past needs no wakeup.
        let deaf = self.deaf_until.filter(|until| *until > now);
        let due = late.into_iter().chain(deaf).min();
        let due = due.map(|it| it.saturating_duration_since(now));
        due.into_iter().chain(signalled.then_some(LOOK_AGAIN)).min()
    }

    fn accept(&mut self) {
        self.deaf_until = None;
        loop {
            match orlop_keeper_protocol::accept(&self.listener) {
                Ok(Some(socket)) => {
                    self.add_connection(socket, FrameBuffer::new());
                }
                Ok(None) => return,
                Err(_) => {
                    self.deaf_until = Some(Instant::now() + ACCEPT_AGAIN);
                    return;
                }
            }
        }
    }

    fn add_connection(&mut self, socket: OwnedFd, incoming: FrameBuffer) -> Option<u64> {
        rustix::io::ioctl_fionbio(&socket, true).ok()?;
        if self.connections.len() >= CONNECTIONS_MOST {
            return None;
        }
        let key = self.next_key;
        self.next_key += 1;
        self.connections
            .insert(key, Connection::new(socket, incoming));
        Some(key)
    }

    fn connection_ready(&mut self, key: u64) {
        if let Some(connection) = self.connections.get_mut(&key) {
            let received = connection.flush().and_then(|()| connection.receive());
            self.take_requests(key, received);
        }
    }

    /// Handles the received requests, then closes the connection if it ended.
    fn take_requests(&mut self, key: u64, received: Result<(), Ended>) {
        let mut state = received;
        while let Some(connection) = self.connections.get_mut(&key) {
            match connection.next_frame() {
                Ok(Some(frame)) => {
                    if self.request(key, &frame).is_err() {
                        state = Err(Ended);
                        break;
                    }
                }
                Ok(None) => break,
                Err(ended) => {
                    state = Err(ended);
                    break;
                }
            }
        }
        if state.is_err() {
            self.let_go(key);
        }
    }

    fn let_go(&mut self, key: u64) {
        self.connections.remove(&key);
        if self.subscriber == Some(key) {
            self.subscriber = None;
        }
    }

    /// Handles a request. An unknown request gets an error reply, and the connection stays open.
    fn request(&mut self, key: u64, frame: &Frame) -> Result<(), Ended> {
        let number = frame.request;
        match frame.kind {
            LazyHello::KIND => self.welcome(key, number),
            LazySubscribe::KIND => {
                self.subscriber = Some(key);
                self.session.waiting.lock().ask_again();
                self.reply(key, number, Ok(Done {}))
            }
            AddLayer::KIND => {
                let done = decode(frame).and_then(|add: AddLayer| {
                    let mut layers = self.session.layers.write();
                    layers.add(add.key, add.directory, add.size, add.timeout_ms)
                });
                self.reply(key, number, done.map(|()| Done {}))
            }
            RemoveLayer::KIND => {
                let done = decode(frame).and_then(|remove: RemoveLayer| self.remove(&remove.key));
                self.reply(key, number, done.map(|()| Done {}))
            }
            ListLayers::KIND => {
                let listing = self.list();
                self.reply(key, number, Ok(listing))
            }
            FetchAnswer::KIND => {
                if let Ok(answer) = FetchAnswer::decode(&frame.payload) {
                    self.fetched(answer.id, answer.errno != 0, &answer.reason);
                }
                Ok(())
            }
            LazyStop::KIND => {
                let done = decode(frame).and_then(|stop: LazyStop| self.stop(stop.keep));
                self.reply(key, number, done.map(|()| Done {}))
            }
            kind => {
                let what = format!("unknown request {kind}");
                self.reply::<Done>(key, number, Err(failure(FailureKind::Unsupported, what)))
            }
        }
    }

    fn welcome(&mut self, key: u64, number: u32) -> Result<(), Ended> {
        let ready = LazyReady {
            version: LAZY_VERSION,
            pid: std::process::id(),
        };
        let connection = self.connections.get_mut(&key).ok_or(Ended)?;
        let fds = [self.session.fuse.as_fd(), self.session.journal.as_fd()];
        connection.send_with(&ready, number, &fds)
    }

    fn reply<B: Body>(
        &mut self,
        key: u64,
        number: u32,
        answer: Result<B, Failure>,
    ) -> Result<(), Ended> {
        let connection = self.connections.get_mut(&key).ok_or(Ended)?;
        match answer {
            Ok(body) => connection.send(&body, number),
            Err(failure) => connection.send(&failure, number),
        }
    }

    fn remove(&mut self, key: &str) -> Result<(), Failure> {
        let node = self.session.layers.write().remove(key)?;
        let released = self.session.waiting.lock().of_layer(node);
        for released in released {
            // The missing parts may have arrived just now.
            self.session.finish(released, &mut self.answers);
        }
        // If the kernel does not know the name, no process has the file open.
        if !fuse::forget_name(&self.session.fuse, key) {
            self.session.layers.write().forgotten(node);
        }
        Ok(())
    }

    fn list(&self) -> LayerListing {
        let layers = self.session.layers.read();
        let waiting = self.session.waiting.lock();
        let info = |layer: &Arc<crate::layers::Layer>| LayerInfo {
            key: layer.entry.key.clone(),
            size: layer.entry.size,
            waiting: waiting.count(layer.entry.node) as u64,
            open: layer.parts.is_some(),
        };
        LayerListing {
            layers: layers.named_after(0).map(info).collect(),
        }
    }

    fn stop(&mut self, keep: bool) -> Result<(), Failure> {
        if keep {
            self.stop = Some(Stop::ForSuccessor);
            return Ok(());
        }
        unmount(&self.mount_point, UnmountFlags::DETACH).map_err(|errno| {
            let what = format!("unmounting {}: {errno}", self.mount_point.display());
            failure(FailureKind::Failed, what)
        })?;
        let nodes = self.session.layers.write().leave();
        for node in nodes {
            let released = self.session.waiting.lock().of_layer(node);
            for released in released {
                self.session.finish(released, &mut self.answers);
            }
        }
        self.stop = Some(Stop::ForGood);
        Ok(())
    }

    /// Handles the end of a fetch.
    fn fetched(&mut self, id: u64, failed: bool, reason: &str) {
        let answered = self
            .session
            .waiting
            .lock()
            .answered(id, failed, Instant::now());
        let Some((wanted, released)) = answered else {
            return;
        };
        let mut missed = 0;
        for released in released {
            if failed {
                self.session.give_up(released);
            } else if !self.session.finish(released, &mut self.answers) {
                missed += 1;
            }
        }
        if failed {
            self.tell(&wanted, reason, false);
        } else if missed > 0 {
            self.tell(
                &wanted,
                "data that was reported as fetched is missing",
                false,
            );
        }
    }

    /// Releases the waiting reads of threads that are dying.
    fn look_at_signalled(&self) {
        let watched = self.session.waiting.lock().watched();
        for read in watched {
            self.session.end_if_dying(&read);
        }
    }

    /// Fails the reads whose timeout expired.
    fn late(&mut self) {
        let late = self.session.waiting.lock().late(Instant::now());
        for Released { read, entry } in late {
            self.session.give_up(Released { read, entry });
            let wanted = Wanted {
                id: 0,
                node: read.node,
                bytes: read.offset..read.offset.saturating_add(u64::from(read.size)),
                pid: read.pid,
            };
            self.tell(
                &wanted,
                "waited too long for data that is not fetched",
                true,
            );
        }
    }

    /// Sends the fetches that reads wait for.
    fn ask(&mut self) {
        while let Some(key) = self.subscriber {
            let wanted = self.session.waiting.lock().next_to_ask();
            let Some(wanted) = wanted else {
                return;
            };
            let layer = self.session.layers.read().by_node(wanted.node);
            let Some(layer) = layer.filter(|layer| !layer.entry.removed) else {
                self.fetched(wanted.id, true, "the layer was removed");
                continue;
            };
            let fetch = Fetch {
                id: wanted.id,
                key: layer.entry.key.clone(),
                offset: wanted.bytes.start,
                length: wanted.bytes.end - wanted.bytes.start,
                pid: wanted.pid,
            };
            self.event(key, &fetch);
        }
    }

    /// Reports a failed read to the daemon, if one is connected.
    fn tell(&mut self, wanted: &Wanted, reason: &str, timed_out: bool) {
        let layer = self.session.layers.read().by_node(wanted.node);
        if let (Some(key), Some(layer)) = (self.subscriber, layer) {
            let failed = ReadFailed {
                key: layer.entry.key.clone(),
                offset: wanted.bytes.start,
                length: wanted.bytes.end - wanted.bytes.start,
                reason: reason.to_owned(),
                timed_out,
            };
            self.event(key, &failed);
        }
    }

    fn event<B: Body>(&mut self, key: u64, event: &B) {
        let connection = self.connections.get_mut(&key);
        if connection.is_none_or(|connection| connection.send(event, 0).is_err()) {
            self.let_go(key);
        }
    }
}

/// A source of a poll event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Listener,
    Bell,
    Connection(u64),
}

fn decode<M: Message>(frame: &Frame) -> Result<M, Failure> {
    M::decode(&frame.payload).map_err(|error: Malformed| {
        failure(FailureKind::Invalid, format!("reading a request: {error}"))
    })
}
