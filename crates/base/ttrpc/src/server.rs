//! The server side.

use std::io;
use std::os::unix::net::UnixStream;

use prost::Message;

use crate::frame::{REQUEST, RESPONSE, read_frame, write_frame};
use crate::messages::{Request, Response, Status};

/// gRPC status codes.
pub mod code {
    /// An error without a more specific code.
    pub const UNKNOWN: i32 = 2;
    /// An argument is invalid.
    pub const INVALID_ARGUMENT: i32 = 3;
    /// The deadline was exceeded.
    pub const DEADLINE_EXCEEDED: i32 = 4;
    /// The named object does not exist.
    pub const NOT_FOUND: i32 = 5;
    /// An object of that name exists already.
    pub const ALREADY_EXISTS: i32 = 6;
    /// A resource is exhausted.
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    /// The object is in a state that does not allow the call.
    pub const FAILED_PRECONDITION: i32 = 9;
    /// The method is not implemented.
    pub const UNIMPLEMENTED: i32 = 12;
}

impl Status {
    /// Creates a status with this code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// A received call.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Its stream ID on the connection.
    pub number: u32,
    /// The service.
    pub service: String,
    /// The method.
    pub method: String,
    /// The encoded argument.
    pub payload: Vec<u8>,
}

impl Call {
    /// Reads the next call of a connection. Fails at its end, and if the frame is not a call.
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
        let request = Request::decode(request).ok()?;
        Some(Self {
            number,
            service: request.service,
            method: request.method,
            payload: request.payload,
        })
    }
}

/// Decodes the argument or the result of a call, of at most [`crate::LARGEST`] bytes.
pub fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::new(code::INVALID_ARGUMENT, error.to_string()))
}

/// Sends the response to a call.
pub fn respond(
    socket: &mut UnixStream,
    number: u32,
    outcome: &Result<Vec<u8>, Status>,
) -> io::Result<()> {
    let response = match outcome.clone() {
        Ok(payload) => Response {
            payload,
            ..Response::default()
        },
        Err(status) => Response {
            status: Some(status),
            ..Response::default()
        },
    };
    write_frame(socket, number, RESPONSE, &response.encode_to_vec())
}

/// Passes the argument of each call to `look`, and answers with an empty message. The status is explicit, because a
/// frame without any bytes may surprise a client.
pub fn answer_all(socket: &mut UnixStream, mut look: impl FnMut(&[u8])) {
    let done = Response {
        status: Some(Status::default()),
        ..Response::default()
    };
    let done = done.encode_to_vec();
    while let Ok(call) = Call::read(socket) {
        look(&call.payload);
        if write_frame(socket, call.number, RESPONSE, &done).is_err() {
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
            answer_all(&mut ours, |payload| assert_eq!(payload, b"x"));
        });
        write_frame(&mut theirs, 1, REQUEST, b"\x1a\x01x").unwrap();
        let (call, kind, answer) = read_frame(&mut theirs).unwrap();
        assert_eq!((call, kind), (1, RESPONSE));
        assert_eq!(answer, b"\x0a\x00", "a status of no content");
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
