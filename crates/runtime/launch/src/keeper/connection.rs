//! A connection to a keeper: sends requests, receives replies and events.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use orlop_keeper_protocol::{Body, Event, Failure, Frame, FrameBuffer, Message, Request};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::error::{Error, Result};

/// Number of requests that are queued for the socket.
const REQUEST_QUEUE: usize = 64;

/// Number of events that are queued for their reader. Beyond it, the connection is closed, because a lost event must
/// not go unnoticed.
const EVENT_QUEUE: usize = 4096;

/// A connection with its reader and writer tasks, which end with it.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: mpsc::Sender<Outgoing>,
    waiting: Arc<Waiting>,
    next_request: AtomicU32,
    tasks: [AbortHandle; 2],
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// Requests that wait for their reply; `None` once the connection has ended.
#[derive(Debug)]
struct Waiting(Mutex<Option<HashMap<u32, oneshot::Sender<Frame>>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u32, oneshot::Sender<Frame>>>> {
        self.0.lock()
    }
}

impl Connection {
    /// Takes over a connected socket. Must be called in a tokio runtime.
    pub(super) fn new(
        socket: std::os::unix::net::UnixStream,
    ) -> io::Result<(Self, mpsc::Receiver<Event>)> {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UnixStream::from_std(socket)?);
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        let (outgoing, queue) = mpsc::channel(REQUEST_QUEUE);
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        let reader = tokio::spawn(read(
            Arc::clone(&socket),
            Arc::clone(&waiting),
            event_sender,
        ));
        let writer = tokio::spawn(write(socket, queue));
        let connection = Self {
            outgoing,
            waiting,
            next_request: AtomicU32::new(1),
            tasks: [reader.abort_handle(), writer.abort_handle()],
        };
        Ok((connection, events))
    }

    /// Sends a request and waits for its reply. Canceling the wait leaves the request running.
    pub(super) async fn call<R: Request>(
        &self,
        doing: &str,
        request: &R,
        fds: Vec<OwnedFd>,
        limit: Duration,
    ) -> Result<(R::Reply, Vec<OwnedFd>)> {
        let malformed = |source| Error::Protocol {
            doing: doing.to_owned(),
            source,
        };
        let gone = || Error::Gone {
            doing: doing.to_owned(),
        };
        // 0 marks events.
        let number = self.next_request.fetch_add(1, Ordering::Relaxed).max(1);
        let bytes = Frame::encode(request, number, fds.len()).map_err(malformed)?;
        let (sender, reply) = oneshot::channel();
        match self.waiting.lock().as_mut() {
            Some(waiting) => waiting.insert(number, sender),
            None => return Err(gone()),
        };
        let forget = Forget {
            waiting: &self.waiting,
            number,
        };
        let exchange = async {
            let outgoing = Outgoing { bytes, fds };
            self.outgoing.send(outgoing).await.ok()?;
            reply.await.ok()
        };
        let frame = match timeout(limit, exchange).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(gone()),
            Err(_) => {
                return Err(Error::NoAnswer {
                    doing: doing.to_owned(),
                    after: limit,
                });
            }
        };
        drop(forget);
        if frame.kind == R::Reply::KIND {
            let reply = R::Reply::decode(&frame.payload).map_err(malformed)?;
            return Ok((reply, frame.fds));
        }
        let failure = if frame.kind == Failure::KIND {
            Failure::decode(&frame.payload).map_err(malformed)?
        } else {
            Failure {
                message: format!("unknown response of kind {}", frame.kind),
                ..Failure::default()
            }
        };
        Err(Failed { doing, failure }.into())
    }

    pub(super) fn is_open(&self) -> bool {
        self.waiting.lock().is_some()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A failure to be converted to an error.
struct Failed<'a> {
    doing: &'a str,
    failure: Failure,
}

impl From<Failed<'_>> for Error {
    fn from(Failed { doing, failure }: Failed<'_>) -> Self {
        crate::runtime::failure_of_call(doing, &failure).map_or_else(
            || Error::Keeper {
                kind: failure.kind,
                message: format!("{doing}: {}", failure.message),
            },
            Error::Runtime,
        )
    }
}

/// Guard that removes a request when its caller stops waiting.
struct Forget<'a> {
    waiting: &'a Waiting,
    number: u32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.lock().as_mut() {
            waiting.remove(&self.number);
        }
    }
}

/// Dispatches replies and events until the connection ends.
async fn read(socket: Arc<UnixStream>, waiting: Arc<Waiting>, events: mpsc::Sender<Event>) {
    if let Err(error) = read_frames(&socket, &waiting, &events).await {
        tracing::debug!(%error, "connection to a keeper ended");
    }
    // Wakes all waiting callers with an error; the event reader sees the end, too.
    *waiting.lock() = None;
}

async fn read_frames(
    socket: &UnixStream,
    waiting: &Waiting,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let mut buffer = FrameBuffer::new();
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let (count, fds) = socket
            .async_io(Interest::READABLE, || {
                Ok(orlop_keeper_protocol::recv(socket, &mut bytes)?)
            })
            .await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.push(&bytes[..count], fds);
        while let Some(frame) = buffer.pop().map_err(io::Error::other)? {
            if frame.request == 0 {
                let Some(event) = Event::decode(&frame).map_err(io::Error::other)? else {
                    continue;
                };
                match events.try_send(event) {
                    Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        return Err(io::Error::other("the event queue is full"));
                    }
                }
            } else {
                let sender = waiting
                    .lock()
                    .as_mut()
                    .and_then(|waiting| waiting.remove(&frame.request));
                if let Some(sender) = sender {
                    // Fails if the caller has stopped waiting.
                    let _ = sender.send(frame);
                }
            }
        }
    }
}

/// Sends queued requests. On an error it shuts the socket down, so that the reader ends, too.
async fn write(socket: Arc<UnixStream>, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { bytes, fds }) = queue.recv().await {
        let mut rest = bytes.as_slice();
        let mut fds = VecDeque::from(fds);
        while !rest.is_empty() {
            let sent = socket
                .async_io(Interest::WRITABLE, || {
                    let beside: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                    Ok(orlop_keeper_protocol::send(&socket, rest, &beside)?)
                })
                .await;
            match sent {
                Ok(count) => {
                    rest = &rest[count..];
                    fds.clear();
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot send to a keeper");
                    let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
                    return;
                }
            }
        }
    }
}
