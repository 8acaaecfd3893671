//! The client side.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use prost::Message;

use crate::error::{Error, Result};
use crate::frame::{REQUEST, RESPONSE, read_frame, write_frame};
use crate::messages::{Request, Response};

/// A connection for one call at a time.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    next: u32,
}

impl Client {
    /// Connects to a socket.
    pub fn connect(address: &Path) -> io::Result<Self> {
        UnixStream::connect(address).map(Self::of)
    }

    /// Uses an existing connection.
    pub fn of(socket: UnixStream) -> Self {
        Self { socket, next: 1 }
    }

    /// Calls a method and waits for its response, without end if there is no limit.
    pub fn call(
        &mut self,
        service: &str,
        method: &str,
        payload: &[u8],
        limit: Option<Duration>,
    ) -> Result<Vec<u8>> {
        let failed = |source| Error::Io {
            method: method.to_owned(),
            source,
        };
        let request = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload: payload.to_vec(),
            timeout_nano: limit.map_or(0, |limit| limit.as_nanos() as i64),
            ..Request::default()
        };
        let call = self.next;
        self.next += 2;
        self.socket.set_read_timeout(limit).map_err(failed)?;
        write_frame(&mut self.socket, call, REQUEST, &request.encode_to_vec()).map_err(failed)?;
        loop {
            let (answered, kind, payload) = read_frame(&mut self.socket).map_err(failed)?;
            if answered == call && kind == RESPONSE {
                return parse_response(method, &payload);
            }
        }
    }
}

/// Returns the payload of a response, or its error.
pub fn parse_response(method: &str, response: &[u8]) -> Result<Vec<u8>> {
    let response = Response::decode(response).map_err(|_| Error::Garbled(method.to_owned()))?;
    match response.status {
        Some(status) if status.code != 0 => Err(Error::Refused {
            method: method.to_owned(),
            code: status.code,
            message: status.message,
        }),
        _ => Ok(response.payload),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    use prost::Message;

    use super::{Client, parse_response};
    use crate::error::Error;
    use crate::frame::{LARGEST, RESPONSE, read_frame, write_frame};
    use crate::messages::{Request, Response, Status};
    use crate::server::code::NOT_FOUND;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

    /// Any bytes from a shim are either a frame within the limit or end the connection.
    #[test]
    fn fuzzed_bytes_of_a_shim_do_not_break_the_connection() {
        let answer = Response {
            status: Some(Status::new(NOT_FOUND, "no such")),
            payload: b"told".into(),
        };
        let answer = answer.encode_to_vec();
        let mut frame = vec![0, 0, 0, answer.len() as u8, 0, 0, 0, 1, RESPONSE, 0];
        frame.extend(&answer);
        orlop_testkit::Fuzz::new()
            .example(&frame)
            .example([&frame[..], &frame].concat())
            .words([
                &[0xff; 4][..],
                &[0, 0x40, 0, 1],
                &[0x0a, 0xff, 0xff, 0x7f],
                &[0x12],
            ])
            .run(|input| {
                let (mut near, mut far) = UnixStream::pair().unwrap();
                let sent = input.get(..32 << 10).unwrap_or(input);
                far.write_all(sent).unwrap();
                drop(far);
                while let Ok((_, _, payload)) = read_frame(&mut near) {
                    assert!(payload.len() <= LARGEST);
                    let _ = parse_response("Method", &payload);
                }
            });
    }

    #[test]
    fn a_call_reaches_its_method_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let (call, _, request) = read_frame(&mut socket).unwrap();
            let request = Request::decode(&*request).unwrap();
            assert_eq!((&*request.service, &*request.method), ("service", "Method"));
            assert_eq!(request.payload, b"asked");
            // A response to an abandoned call arrives in between.
            write_frame(&mut socket, call + 2, RESPONSE, b"").unwrap();
            let answer = Response {
                status: Some(Status::default()),
                payload: b"told".into(),
            };
            write_frame(&mut socket, call, RESPONSE, &answer.encode_to_vec()).unwrap();
            let (call, _, _) = read_frame(&mut socket).unwrap();
            assert_eq!(call, 3);
            let refusal = Response {
                status: Some(Status::new(NOT_FOUND, "no such")),
                ..Response::default()
            };
            write_frame(&mut socket, call, RESPONSE, &refusal.encode_to_vec()).unwrap();
        });
        let mut client = Client::connect(&path).unwrap();
        let answer = client.call("service", "Method", b"asked", LIMIT).unwrap();
        assert_eq!(answer, b"told");
        let refused = client.call("service", "Method", b"", LIMIT).unwrap_err();
        assert!(
            matches!(
                &refused,
                Error::Refused {
                    code: NOT_FOUND,
                    ..
                }
            ),
            "{refused:?}"
        );
        server.join().unwrap();
        let gone = client.call("service", "Method", b"", LIMIT).unwrap_err();
        assert!(matches!(gone, Error::Io { .. }), "{gone:?}");
    }
}
