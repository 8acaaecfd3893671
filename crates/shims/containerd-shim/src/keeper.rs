//! Client of the keeper: responses are matched by request number, events arrive on their own.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use orlop_keeper_protocol::{
    Body, Event, Failure, FailureKind, Frame, FrameBuffer, Hello, Message, Request, SOCKET_NAME,
    Setup, Shutdown, Subscribe, VERSION, Welcome,
};
use orlop_ttrpc::{Status, code};
use parking_lot::Mutex;

use crate::error::{Result, failed, unknown};
use crate::failure_reason::failure_reason;
use crate::program::background;

/// How long a keeper may take to start and to end.
const SETUP_LIMIT: Duration = Duration::from_secs(30);
/// How long requests that the keeper handles itself may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// Margin added to the timeout of a runtime's call, because the keeper responds when that expires.
const MARGIN: Duration = Duration::from_secs(5);

/// A connection to a pod's keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    socket: UnixStream,
    calls: Mutex<Calls>,
    /// The pid of the keeper, whose namespaces are the pod's.
    pub(crate) pid: u32,
    /// The pid of the first process in the pod's PID namespace; 0 if it has none.
    pub(crate) init: u32,
}

#[derive(Debug, Default)]
struct Calls {
    last: u32,
    waiting: BTreeMap<u32, SyncSender<Frame>>,
    closed: bool,
}

/// A message that the keeper sends on its own.
#[derive(Debug)]
pub(crate) enum News {
    Event(Event),
    /// The keeper has exited.
    End,
}

impl Keeper {
    /// Starts a keeper, which is not a child of this process.
    pub(crate) fn spawn(setup: &Setup, hear: impl Fn(News) + Send + 'static) -> Result<Arc<Self>> {
        let program = program()?;
        let pair = UnixStream::pair();
        let (ours, theirs) = pair.map_err(failed("creating a socket for", &program))?;
        let mut child = Command::new(&program)
            .arg(&setup.pod_id)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("starting", &program))?;
        let keeper = Self::greet(ours, setup, SETUP_LIMIT, hear);
        if keeper.is_err() {
            let _ = child.kill();
        }
        // The child starts the actual keeper and exits at once.
        let _ = child.wait();
        keeper
    }

    /// Connects to the keeper that uses this directory.
    pub(crate) fn find(dir: &Path) -> Result<Arc<Self>> {
        let path = dir.join(SOCKET_NAME);
        let socket = UnixStream::connect(&path).map_err(failed("connecting to", &path))?;
        Self::greet(socket, &Hello { version: VERSION }, LIMIT, drop)
    }

    fn greet<R: Request<Reply = Welcome>>(
        socket: UnixStream,
        greeting: &R,
        limit: Duration,
        hear: impl Fn(News) + Send + 'static,
    ) -> Result<Arc<Self>> {
        let incoming = socket.try_clone();
        let incoming = incoming
            .map_err(|error| unknown(format!("duplicating the keeper's socket: {error}")))?;
        let mut keeper = Self {
            socket,
            calls: Mutex::default(),
            pid: 0,
            init: 0,
        };
        // The first response is read here; nothing else arrives before it.
        let mut buffer = FrameBuffer::new();
        let answer = keeper.send(greeting, &[])?;
        incoming.set_read_timeout(Some(limit)).map_err(|error| {
            unknown(format!("setting a timeout on the keeper's socket: {error}"))
        })?;
        let frame = next_frame(&incoming, &mut buffer);
        drop(answer);
        keeper.calls.get_mut().waiting.clear();
        let frame = frame.ok_or_else(|| unknown("the keeper exited before it sent a response"))?;
        let (welcome, _) = reply::<R>("setting up the pod's keeper", frame)?;
        keeper.pid = welcome.pid;
        keeper.init = welcome.init_pid;
        let _ = incoming.set_read_timeout(None);
        let keeper = Arc::new(keeper);
        let listening = Arc::clone(&keeper);
        background(move || {
            while let Some(frame) = next_frame(&incoming, &mut buffer) {
                if frame.request != 0 {
                    let waiting = listening.calls.lock().waiting.remove(&frame.request);
                    if let Some(waiting) = waiting {
                        let _ = waiting.try_send(frame);
                    }
                } else if let Ok(Some(event)) = Event::decode(&frame) {
                    hear(News::Event(event));
                }
            }
            let mut calls = listening.calls.lock();
            calls.closed = true;
            calls.waiting.clear();
            drop(calls);
            hear(News::End);
        })?;
        keeper.call(
            "subscribing to the keeper's events",
            &Subscribe {},
            &[],
            LIMIT,
        )?;
        Ok(keeper)
    }

    /// Sends a request and waits for the response.
    pub(crate) fn call<R: Request>(
        &self,
        doing: &str,
        request: &R,
        fds: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<(R::Reply, Vec<OwnedFd>)> {
        let answer = self.send(request, fds)?;
        match answer.recv_timeout(limit + MARGIN) {
            Ok(frame) => reply::<R>(doing, frame),
            Err(RecvTimeoutError::Timeout) => Err(Status::new(
                code::DEADLINE_EXCEEDED,
                format!("{doing}: the keeper has not answered within {limit:?}"),
            )),
            Err(RecvTimeoutError::Disconnected) => {
                Err(unknown(format!("{doing}: the keeper has exited")))
            }
        }
    }

    fn send<R: Request>(&self, request: &R, fds: &[BorrowedFd<'_>]) -> Result<Receiver<Frame>> {
        let (answer, waiting) = sync_channel(1);
        let gone = || unknown("the pod's keeper has exited");
        // Locked during the write, so that frames do not interleave.
        let mut calls = self.calls.lock();
        if calls.closed {
            return Err(gone());
        }
        calls.last = calls.last.wrapping_add(1).max(1);
        let number = calls.last;
        let bytes = Frame::encode(request, number, fds.len());
        let bytes =
            bytes.map_err(|error| unknown(format!("encoding a request to the keeper: {error}")))?;
        calls.waiting.insert(number, answer);
        let (mut sent, mut beside) = (0, fds);
        while sent < bytes.len() {
            if let Ok(count) = orlop_keeper_protocol::send(&self.socket, &bytes[sent..], beside) {
                sent += count;
            } else {
                calls.waiting.remove(&number);
                return Err(gone());
            }
            beside = &[];
        }
        Ok(waiting)
    }

    /// Kills the remaining processes of the pod and ends the keeper.
    pub(crate) fn end(&self) {
        // The keeper confirms by exiting.
        let _ = self.call("stopping the keeper", &Shutdown {}, &[], SETUP_LIMIT);
        crate::program::await_end(self.pid, LIMIT);
    }
}

/// Returns the path of the keeper, which is installed next to this program.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| unknown(format!("finding this program: {error}")))?;
    let program = own.with_file_name("orlop-keeper");
    if program.is_file() {
        return Ok(program);
    }
    Err(unknown(format!(
        "cannot find {}; install orlop-keeper beside containerd-shim-orlop-v1",
        program.display()
    )))
}

fn next_frame(socket: impl AsFd, buffer: &mut FrameBuffer) -> Option<Frame> {
    loop {
        if let Some(frame) = buffer.pop().ok()? {
            return Some(frame);
        }
        let mut bytes = [0; 4096];
        let (count, fds) = orlop_keeper_protocol::recv(&socket, &mut bytes).ok()?;
        if count == 0 {
            return None;
        }
        buffer.push(&bytes[..count], fds);
    }
}

fn reply<R: Request>(doing: &str, frame: Frame) -> Result<(R::Reply, Vec<OwnedFd>)> {
    let garbled = |_| unknown(format!("{doing}: cannot parse the keeper's response"));
    if frame.kind == R::Reply::KIND {
        let reply = R::Reply::decode(&frame.payload).map_err(garbled)?;
        return Ok((reply, frame.fds));
    }
    let failure = Failure::decode(&frame.payload).map_err(garbled)?;
    Err(status(doing, &failure))
}

fn status(doing: &str, failure: &Failure) -> Status {
    let kind = match failure.kind {
        FailureKind::NotFound => code::NOT_FOUND,
        FailureKind::Exists => code::ALREADY_EXISTS,
        FailureKind::WrongState => code::FAILED_PRECONDITION,
        FailureKind::Invalid => code::INVALID_ARGUMENT,
        FailureKind::TimedOut => code::DEADLINE_EXCEEDED,
        FailureKind::Exhausted => code::RESOURCE_EXHAUSTED,
        _ => code::UNKNOWN,
    };
    let words = failure_reason(&failure.runtime_log, &failure.runtime_output);
    let words = words.unwrap_or_else(|| failure.message.clone());
    Status::new(kind, format!("{doing}: {words}"))
}

#[cfg(test)]
mod tests {
    use orlop_keeper_protocol::{Failure, FailureKind};
    use orlop_ttrpc::code;

    use super::status;

    #[test]
    fn a_failure_is_told_in_the_runtimes_words() {
        let failure = Failure {
            kind: FailureKind::RuntimeFailed,
            message: "it ended with exit code 1".into(),
            runtime_log: "{\"level\":\"error\",\"msg\":\"exec: \\\"a\\\": not found\"}\n".into(),
            runtime_output: String::new(),
        };
        let told = status("OCI runtime create failed", &failure);
        assert_eq!(told.code, code::UNKNOWN);
        assert_eq!(
            told.message,
            "OCI runtime create failed: exec: \"a\": not found"
        );
    }
}
