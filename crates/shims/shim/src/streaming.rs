//! A stream that a shim serves itself (`containerd.services.streaming.v1`), in the form of containerd's
//! transfers: data one way, and the other way how much more may come.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use orlop_containerd_api::Any;
use orlop_containerd_api::services::streaming::StreamInit;
use orlop_containerd_api::transfer::{Data, WindowUpdate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::rpc;

const SERVICE: &str = "containerd.services.streaming.v1.Streaming";

/// One that serves streams has this one by then.
const LIMIT: Duration = Duration::from_secs(10);
/// As much may be under way, as between containerd and its shims.
const WINDOW: usize = 64 << 10;
const MOST_READ: usize = 32 << 10;
/// Whoever says nothing for so long looks after the connection.
const IDLE: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// A stream that is there, and that nothing was said on yet.
pub(crate) struct Stream(rpc::Stream);

impl Stream {
    /// Opens one of this name, which the shim is told afterwards.
    pub(crate) fn open(endpoint: &Endpoint, id: &str) -> Result<Self> {
        let opened = || {
            let mut stream = rpc::Stream::open(endpoint, SERVICE, "Stream")?;
            stream.send(&Any::pack(&StreamInit { id: id.into() }))?;
            // It says something itself once it has taken note.
            match stream.receive::<Any>(Some(LIMIT))? {
                Some(_) => Ok(Self(stream)),
                None => Err(Error::Garbled("an empty response".into())),
            }
        };
        opened().map_err(|error: Error| {
            let at = endpoint.address();
            Error::Failed(format!(
                "opening a stream at {at}: {error}; set `io = \"streaming\"` only for shims that serve streams"
            ))
        })
    }

    /// Gives on all that comes, until it ends or nobody wants more.
    pub(crate) fn give(mut self, mut to: impl FnMut(&[u8]) -> bool) {
        let mut room = 0;
        loop {
            if room < WINDOW {
                let update = WindowUpdate {
                    update: WINDOW as i32,
                };
                // One that has said all does not hear it; what it has said comes nevertheless.
                let _ = self.0.send(&Any::pack(&update));
                room += WINDOW;
            }
            let Ok(Some(said)) = self.0.receive::<Any>(None) else {
                return;
            };
            let Some(Data { data }) = said.unpack() else {
                continue;
            };
            room = room.saturating_sub(data.len());
            if !to(&data) {
                return;
            }
        }
    }

    /// Takes all that is read, as far as there is room for it over there.
    pub(crate) fn take(mut self, mut from: File) {
        let mut room = 0_usize;
        let mut bytes = vec![0; MOST_READ];
        loop {
            while room == 0 {
                let Ok(Some(said)) = self.0.receive::<Any>(None) else {
                    return;
                };
                if let Some(WindowUpdate { update }) = said.unpack() {
                    room += usize::try_from(update).unwrap_or(0).min(WINDOW);
                }
            }
            if !self.await_input(&from) {
                return;
            }
            let most = room.min(MOST_READ);
            match from.read(&mut bytes[..most]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    room -= read;
                    let data = bytes[..read].to_vec();
                    if self.0.send(&Any::pack(&Data { data })).is_err() {
                        return;
                    }
                }
            }
        }
        if self.0.close().is_err() {
            return;
        }
        // A connection that is closed takes along what they have not read yet over there.
        let end = Instant::now() + LIMIT;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if !matches!(self.0.receive::<Any>(Some(left)), Ok(Some(_))) {
                return;
            }
        }
    }

    /// Waits until there is something to read, and has the connection served meanwhile.
    fn await_input(&mut self, from: &File) -> bool {
        loop {
            let mut fds = [PollFd::new(from, PollFlags::IN)];
            match poll(&mut fds, Some(&IDLE)) {
                Ok(0) => self.0.idle(),
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}
