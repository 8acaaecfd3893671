//! The client that waits for the answer to a call.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use orlop_ttrpc::respond;
use parking_lot::Mutex;

use crate::error::Result;

/// Who waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) connection: Arc<Mutex<UnixStream>>,
    pub(crate) number: u32,
}

impl Caller {
    pub(crate) fn answer(&self, outcome: &Result<Vec<u8>>) {
        // Who has left is not answered.
        let _ = respond(&mut self.connection.lock(), self.number, outcome);
    }
}
