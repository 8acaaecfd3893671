//! The frames of ttrpc, as containerd's shims speak it, and a message that is in many of its calls.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// A message of some other schema, which its type names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Any {
    /// Its type.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// As it is encoded.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// Writes a frame of this call; kind 1 is a request, 2 an answer.
pub fn write_frame(to: &mut UnixStream, call: u32, kind: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = Vec::new();
    frame.extend((payload.len() as u32).to_be_bytes());
    frame.extend(call.to_be_bytes());
    frame.extend([kind, 0]);
    frame.extend(payload);
    to.write_all(&frame)
}

/// Reads a frame: its head, and its payload.
pub fn read_frame(from: &mut UnixStream) -> io::Result<([u8; 10], Vec<u8>)> {
    let mut head = [0; 10];
    from.read_exact(&mut head)?;
    let length = u32::from_be_bytes(head[..4].try_into().expect("four bytes"));
    let mut payload = vec![0; length as usize];
    from.read_exact(&mut payload)?;
    Ok((head, payload))
}

/// The number of the call that a frame belongs to.
pub fn call_of(head: &[u8; 10]) -> u32 {
    u32::from_be_bytes(head[4..8].try_into().expect("four bytes"))
}

/// Answers all calls at a socket with an empty message, once they were heard, for as long as this process
/// lives: shims tell their events so, and do not come up without it.
pub(crate) fn hear_events(
    socket: &Path,
    heard: impl Fn(&[u8]) + Clone + Send + 'static,
) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    std::thread::spawn(move || {
        for mut shim in listener.incoming().map_while(io::Result::ok) {
            let heard = heard.clone();
            std::thread::spawn(move || {
                while let Ok((head, request)) = read_frame(&mut shim) {
                    heard(&request);
                    if write_frame(&mut shim, call_of(&head), 2, &[0x0a, 0, 0x12, 0]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok(())
}
