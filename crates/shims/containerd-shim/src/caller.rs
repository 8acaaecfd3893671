//! The client that waits for the response to a call.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use orlop_ttrpc::respond;
use parking_lot::Mutex;

use crate::error::Result;

/// A waiting client.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) connection: Arc<Mutex<UnixStream>>,
    pub(crate) number: u32,
}

impl Caller {
    pub(crate) fn answer(&self, outcome: &Result<Vec<u8>>) {
        // A client that has disconnected gets no response.
        let _ = respond(&mut self.connection.lock(), self.number, outcome);
    }
}
