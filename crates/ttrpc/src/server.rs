//! The side that is called.

use std::io;
use std::os::unix::net::UnixStream;

use crate::frame::{REQUEST, RESPONSE, read_frame, write_frame};
use crate::proto::{Writer, fields};

/// Why a call is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// One of [`code`].
    pub code: u64,
    /// In words.
    pub message: String,
}

/// Codes of statuses: gRPC's.
pub mod code {
    /// Of no better code.
    pub const UNKNOWN: u64 = 2;
    /// What is asked makes no sense.
    pub const INVALID_ARGUMENT: u64 = 3;
    /// It took too long.
    pub const DEADLINE_EXCEEDED: u64 = 4;
    /// There is nothing of that name.
    pub const NOT_FOUND: u64 = 5;
    /// There is something of that name.
    pub const ALREADY_EXISTS: u64 = 6;
    /// There is not enough of something.
    pub const RESOURCE_EXHAUSTED: u64 = 8;
    /// Not in this state.
    pub const FAILED_PRECONDITION: u64 = 9;
    /// Nobody here can do that.
    pub const UNIMPLEMENTED: u64 = 12;
}

impl Status {
    /// A status of this code.
    pub fn new(code: u64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// A call as it came.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number on the connection.
    pub number: u32,
    /// Whose method is called.
    pub service: String,
    /// Which.
    pub method: String,
    /// With what.
    pub payload: Vec<u8>,
}

impl Call {
    /// The next call of a connection. An error at its end, and where what comes is no call.
    pub fn read(socket: &mut UnixStream) -> io::Result<Self> {
        loop {
            let (number, kind, request) = read_frame(socket)?;
            if kind == REQUEST {
                let call = Self::parse(number, &request);
                return call.ok_or_else(|| io::Error::other("cannot parse the call"));
            }
        }
    }

    fn parse(number: u32, request: &[u8]) -> Option<Self> {
        let mut call = Self {
            number,
            service: String::new(),
            method: String::new(),
            payload: Vec::new(),
        };
        for field in fields(request) {
            let field = field?;
            match field.number {
                1 => call.service = field.as_text(),
                2 => call.method = field.as_text(),
                3 => call.payload = field.as_bytes().to_vec(),
                _ => {}
            }
        }
        Some(call)
    }
}

/// Answers a call.
pub fn respond(
    socket: &mut UnixStream,
    number: u32,
    outcome: &Result<Vec<u8>, Status>,
) -> io::Result<()> {
    let response = match outcome {
        Ok(payload) => Writer::default().bytes(2, payload),
        Err(Status { code, message }) => {
            let status = Writer::default().number(1, *code).text(2, message);
            Writer::default().message(1, &status.done())
        }
    };
    write_frame(socket, number, RESPONSE, &response.done())
}

/// Answers every call of a connection with an empty message until it ends, once it was looked at.
pub fn answer_all(socket: &mut UnixStream, mut look: impl FnMut(&[u8])) {
    let empty = Writer::default().message(1, &[]).message(2, &[]).done();
    while let Ok((call, kind, request)) = read_frame(socket) {
        if kind != REQUEST {
            continue;
        }
        look(&request);
        if write_frame(socket, call, RESPONSE, &empty).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::{Call, Status, answer_all, code, respond};
    use crate::client::Client;
    use crate::error::Error;
    use crate::frame::{REQUEST, RESPONSE, read_frame, write_frame};

    #[test]
    fn events_are_acknowledged() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let served = std::thread::spawn(move || {
            answer_all(&mut ours, |request| assert_eq!(request, b"\x0a\x01x"));
        });
        write_frame(&mut theirs, 1, REQUEST, b"\x0a\x01x").unwrap();
        let (call, kind, _) = read_frame(&mut theirs).unwrap();
        assert_eq!((call, kind), (1, RESPONSE));
        drop(theirs);
        served.join().unwrap();
    }

    #[test]
    fn what_is_answered_reaches_who_has_called() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let call = Call::read(&mut theirs).unwrap();
            assert_eq!((&*call.service, &*call.method), ("a.Service", "Do"));
            respond(&mut theirs, call.number, &Ok(call.payload)).unwrap();
            let call = Call::read(&mut theirs).unwrap();
            let gone = Err(Status::new(code::NOT_FOUND, "no task of that name"));
            respond(&mut theirs, call.number, &gone).unwrap();
            assert!(Call::read(&mut theirs).is_err());
        });
        let mut client = Client::of(ours);
        let limit = Some(Duration::from_secs(5));
        assert_eq!(client.call("a.Service", "Do", b"it", limit).unwrap(), b"it");
        let gone = client.call("a.Service", "Do", b"", limit).unwrap_err();
        assert!(matches!(
            gone,
            Error::Refused {
                code: code::NOT_FOUND,
                ..
            }
        ));
        drop(client);
        server.join().unwrap();
    }

    #[test]
    fn fuzzed_bytes_of_a_client_do_not_break_the_server() {
        orlop_testkit::Fuzz::new()
            .example(b"\x0a\x01s\x12\x01m\x1a\x01p")
            .run(|input| drop(Call::parse(1, input)));
    }
}
