//! Events from the server, and the daemon's answers.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use orlop_keeper_protocol::{Body, Fetch, FetchAnswer, LazySubscribe, Message, ReadFailed};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::connection::{Connection, send};
use super::error::{Error, Result};

/// An event from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A reader needs a missing part: the daemon must fetch, write and mark it, and then answer.
    Fetch(Fetch),
    /// A read failed.
    ReadFailed(ReadFailed),
}

/// The stream of events, for one thread. The newest subscriber gets the events.
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

    /// Waits for the next event. Returns [`Error::Gone`] if the server exited or the events were
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
                // An unknown event of a newer server.
                _ => {}
            }
        }
    }

    /// Returns a handle that answers fetches from any thread.
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

/// Answers fetches.
#[derive(Clone, Debug)]
pub struct Answers(Arc<Mutex<UnixStream>>);

impl Answers {
    /// Reports that the fetched part is written and marked.
    pub fn is_here(&self, fetch: u64) -> Result<()> {
        self.send(&FetchAnswer {
            id: fetch,
            ..FetchAnswer::default()
        })
    }

    /// Reports that the fetch failed; the reads that wait for it fail.
    pub fn failed(&self, fetch: u64, reason: &str) -> Result<()> {
        self.send(&FetchAnswer {
            id: fetch,
            errno: Errno::IO.raw_os_error().cast_unsigned(),
            reason: reason.to_owned(),
        })
    }

    /// Closes the events: a thread that waits for one gets [`Error::Gone`].
    pub fn close(&self) {
        let _ = self.0.lock().shutdown(Shutdown::Both);
    }

    fn send(&self, answer: &FetchAnswer) -> Result<()> {
        send(&*self.0.lock(), answer, 0, &[])
    }
}
