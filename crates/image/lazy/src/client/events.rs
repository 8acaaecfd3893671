//! What the server tells, and what it is answered.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use orlop_keeper_protocol::{Body, Fetch, FetchAnswer, LazySubscribe, Message, ReadFailed};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::connection::{Connection, send};
use super::error::{Error, Result};

/// What the server tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is read and not here: it is to be fetched, written, marked and answered.
    Fetch(Fetch),
    /// A read has failed.
    ReadFailed(ReadFailed),
}

/// What the server tells, for one thread to listen to. The last one who asked for it gets it.
#[derive(Debug)]
pub struct Events {
    connection: Connection,
    answers: Answers,
}

impl Events {
    pub(super) fn new(mut connection: Connection) -> Result<Self> {
        connection.call(&LazySubscribe {}, &[])?;
        let socket = connection.socket();
        socket.set_read_timeout(None).map_err(Error::Socket)?;
        let socket = socket.try_clone().map_err(Error::Socket)?;
        Ok(Self {
            connection,
            answers: Answers(Arc::new(Mutex::new(socket))),
        })
    }

    /// Waits for the next event. [`Error::Gone`] once the server is gone, or the events were
    /// [closed](Answers::close).
    #[expect(clippy::should_implement_trait, reason = "an error is the end")]
    pub fn next(&mut self) -> Result<Event> {
        loop {
            let frame = self.connection.next()?;
            match frame.kind {
                Fetch::KIND => return Ok(Event::Fetch(Fetch::decode(&frame.payload)?)),
                ReadFailed::KIND => {
                    return Ok(Event::ReadFailed(ReadFailed::decode(&frame.payload)?));
                }
                // Of a server that knows more.
                _ => {}
            }
        }
    }

    /// By which fetches are answered, from any thread.
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

/// Answers fetches.
#[derive(Clone, Debug)]
pub struct Answers(Arc<Mutex<UnixStream>>);

impl Answers {
    /// What was to be fetched is here and marked.
    pub fn is_here(&self, fetch: u64) -> Result<()> {
        self.send(&FetchAnswer {
            id: fetch,
            ..FetchAnswer::default()
        })
    }

    /// What was to be fetched cannot be had: who waits for it fails.
    pub fn failed(&self, fetch: u64, reason: &str) -> Result<()> {
        self.send(&FetchAnswer {
            id: fetch,
            errno: Errno::IO.raw_os_error().cast_unsigned(),
            reason: reason.to_owned(),
        })
    }

    /// Ends the events: who waits for one is told that the server is gone.
    pub fn close(&self) {
        let _ = self.0.lock().shutdown(Shutdown::Both);
    }

    fn send(&self, answer: &FetchAnswer) -> Result<()> {
        send(&*self.0.lock(), answer, 0, &[])
    }
}
