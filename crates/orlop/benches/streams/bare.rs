//! The cheapest ends that a forwarded port can have: what is measured between them is the runtime,
//! not its client.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::io::Errno;

/// The stream of errors and that of data; the client's streams are odd.
const ERRORS: u32 = 1;
const DATA: u32 = 3;

/// As much as stays in a processor's cache.
const BLOCK: usize = 256 << 10;

/// The Adler-32 of SPDY/3's dictionary for headers.
const DICTIONARY: u32 = 0xe3c6_a7c2;

/// Sends so many bytes to the first who connects.
pub(crate) fn send(listener: &TcpListener, bytes: usize) -> io::Result<()> {
    let block = vec![7; 1 << 20];
    let (mut stream, _) = listener.accept()?;
    let mut left = bytes;
    while left > 0 {
        left -= stream.write(&block[..left.min(block.len())])?;
    }
    Ok(())
}

/// A session with one forwarded connection, whose data is read and forgotten.
pub(crate) struct Session {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What of the buffer was read and not looked at.
    unseen: std::ops::Range<usize>,
}

impl Session {
    pub(crate) fn open(url: &str, port: u16) -> io::Result<Self> {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (host, path) = rest.split_once('/').ok_or(io::ErrorKind::InvalidInput)?;
        let stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let mut session = Self {
            stream,
            buffer: vec![0; BLOCK],
            unseen: 0..0,
        };
        let request = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: portforward.k8s.io\r\nContent-Length: 0\r\n\r\n"
        );
        session.stream.write_all(request.as_bytes())?;
        session.answered()?;
        let port = port.to_string();
        let mut opened = Vec::new();
        for (stream, kind) in [(ERRORS, "error"), (DATA, "data")] {
            let pairs = [("streamtype", kind), ("port", &port), ("requestid", "0")];
            syn_stream(&mut opened, stream, &pairs);
        }
        session.stream.write_all(&opened)?;
        Ok(session)
    }

    /// Reads until so many bytes of data have come, and answers how many came after all.
    pub(crate) fn drain(&mut self, bytes: usize) -> io::Result<usize> {
        let mut count = 0;
        while count < bytes {
            let head = self.head()?;
            let [a, b, c, d, _, length @ ..] = head;
            let mut left = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
            if u32::from_be_bytes([a, b, c, d]) == DATA {
                count += left;
            }
            while left > 0 {
                if self.unseen.is_empty() {
                    self.fill()?;
                }
                let passed = left.min(self.unseen.len());
                self.unseen.start += passed;
                left -= passed;
            }
        }
        Ok(count)
    }

    fn answered(&mut self) -> io::Result<()> {
        let mut last = [0; 4];
        let mut text = String::new();
        while last != *b"\r\n\r\n" {
            last.rotate_left(1);
            last[3] = self.byte()?;
            text.push(char::from(last[3]));
        }
        if text.starts_with("HTTP/1.1 101 ") {
            Ok(())
        } else {
            Err(io::Error::other(text))
        }
    }

    fn head(&mut self) -> io::Result<[u8; 8]> {
        let mut head = [0; 8];
        for byte in &mut head {
            *byte = self.byte()?;
        }
        Ok(head)
    }

    fn byte(&mut self) -> io::Result<u8> {
        if self.unseen.is_empty() {
            self.fill()?;
        }
        let byte = self.buffer[self.unseen.start];
        self.unseen.start += 1;
        Ok(byte)
    }

    fn fill(&mut self) -> io::Result<()> {
        let read = loop {
            match self.stream.read(&mut self.buffer) {
                Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
                result => break result?,
            }
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.unseen = 0..read;
        Ok(())
    }
}

/// Opens a stream. Its headers are "compressed" in stored blocks, which any zlib takes.
fn syn_stream(out: &mut Vec<u8>, stream: u32, pairs: &[(&str, &str)]) {
    let mut block = (pairs.len() as u32).to_be_bytes().to_vec();
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        block.extend((text.len() as u32).to_be_bytes());
        block.extend(text.as_bytes());
    }
    let mut headers = Vec::new();
    if stream == ERRORS {
        // The head of a zlib stream with a dictionary.
        headers.extend([0x78, 0xbb]);
        headers.extend(DICTIONARY.to_be_bytes());
    }
    let length = u16::try_from(block.len()).expect("a few words");
    headers.push(0);
    headers.extend(length.to_le_bytes());
    headers.extend((!length).to_le_bytes());
    headers.extend(block);
    // An empty block lets go of what was read.
    headers.extend([0, 0, 0, 0xff, 0xff]);
    out.extend([0x80, 3, 0, 1]);
    // The length with no flag before it; then the stream, one above it, its priority.
    out.extend((headers.len() as u32 + 10).to_be_bytes());
    out.extend(stream.to_be_bytes());
    out.extend([0; 6]);
    out.extend(headers);
}
