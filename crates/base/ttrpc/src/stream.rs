//! The client side of streaming calls, as defined by ttrpc 1.2.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use prost::Message;

use crate::client::parse_response;
use crate::error::{Error, Result};
use crate::frame::{CLOSED, DATA, Frame, NO_DATA, OPEN, REQUEST, RESPONSE, read_whole_frame};
use crate::messages::Request;

/// The stream ID of the only call on a connection.
const CALL: u32 = 1;

/// A streaming call on its own connection.
#[derive(Debug)]
pub struct Stream {
    socket: UnixStream,
    method: String,
    ended: bool,
}

impl Stream {
    /// Starts a call on an otherwise unused connection.
    pub fn open(mut socket: UnixStream, service: &str, method: &str) -> Result<Self> {
        let failed = failed(method);
        let request = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            ..Request::default()
        };
        let request = Frame {
            call: CALL,
            kind: REQUEST,
            flags: OPEN,
            payload: request.encode_to_vec(),
        };
        request.write(&mut socket).map_err(failed)?;
        Ok(Self {
            socket,
            method: method.to_owned(),
            ended: false,
        })
    }

    /// Sends a message.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.write(0, message.to_vec())
    }

    /// Closes the sending side.
    pub fn close(&mut self) -> Result<()> {
        self.write(CLOSED | NO_DATA, Vec::new())
    }

    /// Receives the next message; `None` if the other side has closed. Waits without end if there is no limit.
    pub fn receive(&mut self, limit: Option<Duration>) -> Result<Option<Vec<u8>>> {
        let failed = failed(&self.method);
        self.socket.set_read_timeout(limit).map_err(&failed)?;
        while !self.ended {
            let frame = read_whole_frame(&mut self.socket).map_err(&failed)?;
            match frame.kind {
                _ if frame.call != CALL => {}
                RESPONSE => {
                    self.ended = true;
                    parse_response(&self.method, &frame.payload)?;
                }
                DATA => {
                    self.ended = frame.flags & CLOSED != 0;
                    if frame.flags & NO_DATA == 0 {
                        return Ok(Some(frame.payload));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn write(&mut self, flags: u8, payload: Vec<u8>) -> Result<()> {
        let frame = Frame {
            call: CALL,
            kind: DATA,
            flags,
            payload,
        };
        frame.write(&mut self.socket).map_err(failed(&self.method))
    }
}

fn failed(method: &str) -> impl Fn(io::Error) -> Error + use<> {
    let method = method.to_owned();
    move |source| Error::Io {
        method: method.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    use prost::Message;

    use super::{CALL, Stream};
    use crate::error::Error;
    use crate::frame::{CLOSED, DATA, Frame, NO_DATA, OPEN, RESPONSE, read_whole_frame};
    use crate::messages::{Request, Response, Status};

    const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Frame {
        Frame {
            call: CALL,
            kind,
            flags,
            payload: payload.to_vec(),
        }
    }

    /// Runs a peer that sends these frames and closes.
    fn against(answers: Vec<Frame>) -> (Stream, std::thread::JoinHandle<Vec<Frame>>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            for answer in answers {
                answer.write(&mut socket).unwrap();
            }
            let said = std::iter::from_fn(|| read_whole_frame(&mut socket).ok());
            said.collect()
        });
        let socket = UnixStream::connect(&path).unwrap();
        (Stream::open(socket, "service", "Method").unwrap(), server)
    }

    #[test]
    fn both_sides_speak_until_they_have_said_all() {
        let (mut stream, server) = against(vec![
            frame(DATA, 0, b"one"),
            frame(DATA, 0, b""),
            frame(DATA, CLOSED, b"last"),
        ]);
        stream.send(b"asked").unwrap();
        for said in [Some(&b"one"[..]), Some(b""), Some(b"last"), None, None] {
            assert_eq!(stream.receive(LIMIT).unwrap().as_deref(), said);
        }
        stream.close().unwrap();
        drop(stream);
        let said = server.join().unwrap();
        let request = Request::decode(&*said[0].payload).unwrap();
        assert_eq!((said[0].flags, &*request.method), (OPEN, "Method"));
        assert_eq!(
            said[1..],
            [frame(DATA, 0, b"asked"), frame(DATA, CLOSED | NO_DATA, b"")]
        );
    }

    #[test]
    fn a_refusal_is_told() {
        let refusal = Response {
            status: Some(Status::new(12, "no such")),
            ..Response::default()
        };
        let (mut stream, _server) = against(vec![frame(RESPONSE, 0, &refusal.encode_to_vec())]);
        let error = stream.receive(LIMIT).unwrap_err();
        assert!(
            matches!(error, Error::Refused { code: 12, .. }),
            "{error:?}"
        );
    }

    #[test]
    fn fuzzed_bytes_of_a_server_do_not_break_the_stream() {
        let example = frame(DATA, 0, b"x");
        let mut bytes = Vec::new();
        example.write(&mut bytes).unwrap();
        orlop_testkit::Fuzz::new().example(&bytes).run(|input| {
            let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
            let sent = input.get(..32 << 10).unwrap_or(input);
            std::io::Write::write_all(&mut far, sent).unwrap();
            drop(far);
            let mut stream = Stream {
                socket: near,
                method: "Method".into(),
                ended: false,
            };
            while let Ok(Some(_)) = stream.receive(LIMIT) {}
        });
    }
}
