//! Streams served by a shim (`containerd.services.streaming.v1`), in the format of containerd's transfers: data in one
//! direction, window updates in the other.

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

/// Timeout of opening a stream.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of unacknowledged bytes, as between containerd and its shims.
const WINDOW: usize = 64 << 10;
const MOST_READ: usize = 32 << 10;
/// How often an idle sender drives the connection.
const IDLE: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// An opened stream without data yet.
pub(crate) struct Stream(rpc::Stream);

impl Stream {
    /// Opens a stream of this name; the shim later gets the name in a task call.
    pub(crate) fn open(endpoint: &Endpoint, id: &str) -> Result<Self> {
        let opened = || {
            let mut stream = rpc::Stream::open(endpoint, SERVICE, "Stream")?;
            stream.send(&Any::pack(&StreamInit { id: id.into() }))?;
            // The shim acknowledges the stream with a message.
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

    /// Passes all received data to `to` until the stream ends or `to` returns `false`.
    pub(crate) fn give(mut self, mut to: impl FnMut(&[u8]) -> bool) {
        let mut room = 0;
        loop {
            if room < WINDOW {
                let update = WindowUpdate {
                    update: WINDOW as i32,
                };
                // A shim that has sent everything may not receive it; its data arrives nevertheless.
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

    /// Sends everything read from `from`, within the shim's window.
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
        // Closing the connection would lose data that the shim has not read yet.
        let end = Instant::now() + LIMIT;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if !matches!(self.0.receive::<Any>(Some(left)), Ok(Some(_))) {
                return;
            }
        }
    }

    /// Waits for input and drives the connection meanwhile.
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
