//! The side that calls.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::frame::{REQUEST, RESPONSE, read_frame, write_frame};
use crate::proto::{Writer, fields};

/// A connection on which calls are made one after the other.
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

    /// Makes calls on a connection that is there.
    pub fn of(socket: UnixStream) -> Self {
        Self { socket, next: 1 }
    }

    /// Calls a method and waits for its answer: for ever where there is no limit.
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
        let request = Writer::default()
            .text(1, service)
            .text(2, method)
            .bytes(3, payload)
            .number(4, limit.map_or(0, |limit| limit.as_nanos() as u64))
            .done();
        let call = self.next;
        self.next += 2;
        self.socket.set_read_timeout(limit).map_err(failed)?;
        write_frame(&mut self.socket, call, REQUEST, &request).map_err(failed)?;
        loop {
            let (answered, kind, payload) = read_frame(&mut self.socket).map_err(failed)?;
            if answered == call && kind == RESPONSE {
                return parse_response(method, &payload);
            }
        }
    }
}

/// What an answer holds, or why there is none.
pub fn parse_response(method: &str, response: &[u8]) -> Result<Vec<u8>> {
    let garbled = || Error::Garbled(method.to_owned());
    let mut payload = Vec::new();
    let (mut code, mut message) = (0, String::new());
    for field in fields(response) {
        let field = field.ok_or_else(garbled)?;
        match field.number {
            1 => {
                for field in fields(field.as_bytes()) {
                    let field = field.ok_or_else(garbled)?;
                    match field.number {
                        1 => code = field.as_number(),
                        2 => message = field.as_text(),
                        _ => {}
                    }
                }
            }
            2 => payload = field.as_bytes().to_vec(),
            _ => {}
        }
    }
    if code == 0 {
        return Ok(payload);
    }
    Err(Error::Refused {
        method: method.to_owned(),
        code,
        message,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    use super::{Client, parse_response};
    use crate::error::Error;
    use crate::frame::{LARGEST, RESPONSE, read_frame, write_frame};
    use crate::proto::{Writer, fields};
    use crate::server::code::NOT_FOUND;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

    /// Whatever a shim sends is a frame within its limit, or ends the connection.
    #[test]
    fn fuzzed_bytes_of_a_shim_do_not_break_the_connection() {
        let status = Writer::default().number(1, NOT_FOUND).text(2, "no such");
        let answer = Writer::default().message(1, &status.done()).text(2, "told");
        let answer = answer.done();
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
            let texts: Vec<_> = fields(&request)
                .map(|field| field.unwrap().as_text())
                .collect();
            assert_eq!(texts[..3], ["service", "Method", "asked"]);
            // An answer to a call that nobody waits for any more comes in between.
            write_frame(&mut socket, call + 2, RESPONSE, b"").unwrap();
            let answer = Writer::default().message(1, &[]).text(2, "told").done();
            write_frame(&mut socket, call, RESPONSE, &answer).unwrap();
            let (call, _, _) = read_frame(&mut socket).unwrap();
            assert_eq!(call, 3);
            let status = Writer::default()
                .number(1, NOT_FOUND)
                .text(2, "no such")
                .done();
            let refusal = Writer::default().message(1, &status).done();
            write_frame(&mut socket, call, RESPONSE, &refusal).unwrap();
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
