//! A connection to a D-Bus peer or bus: authenticate, call, wait for the reply.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::message::{self, Body, Call, FIXED, Incoming};
use crate::Error;

/// The address of a peer.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// The socket of the service itself.
    Peer(PathBuf),
    /// The socket of a bus that forwards messages, and needs a `Hello`.
    Bus(PathBuf),
}

/// A connection for one call at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    serial: u32,
    patience: Duration,
}

impl Connection {
    /// Connects and authenticates as the user of this process.
    pub(super) fn open(address: &Address, patience: Duration) -> Result<Self, Error> {
        let (Address::Peer(path) | Address::Bus(path)) = address;
        let stream = UnixStream::connect(path).map_err(Error::io("connecting to", path))?;
        let mut connection = Self {
            stream,
            serial: 0,
            patience,
        };
        let greeted = match address {
            Address::Peer(_) => connection.log_in(),
            Address::Bus(_) => connection.log_in().and_then(|()| connection.hello()),
        };
        greeted.map_err(|problem| {
            let action = format!("connect to {}", path.display());
            Error::Systemd { action, problem }
        })?;
        Ok(connection)
    }

    /// Calls a method and waits for its reply; other messages are dropped.
    ///
    /// Returns the first value of the reply if it is a string.
    pub(super) fn call(&mut self, call: &Call<'_>, body: &Body) -> Result<Option<String>, String> {
        self.serial += 1;
        let deadline = Instant::now() + self.patience;
        let text = |error: io::Error| error.to_string();
        self.stream
            .set_write_timeout(Some(self.patience))
            .map_err(text)?;
        self.stream
            .write_all(&message::encode(call, self.serial, body))
            .map_err(text)?;
        loop {
            match message::decode(&self.receive(deadline)?)? {
                Incoming::Reply { serial, text } if serial == self.serial => return Ok(text),
                Incoming::Failure { serial, problem } if serial == self.serial => {
                    return Err(problem);
                }
                _ => {}
            }
        }
    }

    /// Authenticates with the `EXTERNAL` mechanism: the kernel tells the peer our user ID.
    ///
    /// `BEGIN` is sent at once, as systemd's own programs do. If it came with the first call, systemd might read both
    /// together, and then wait for more data before it handles the call. In a user namespace our user ID differs from
    /// the one that the peer sees, so the peer is asked to use that one.
    fn log_in(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        if own_ids_are_the_nodes() {
            let uid = rustix::process::geteuid().as_raw().to_string();
            // In hexadecimal; the code of a digit is 3 followed by the digit.
            let hex: String = uid.chars().flat_map(|digit| ['3', digit]).collect();
            self.say(&format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n"))?;
        } else {
            self.say("\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
            let line = self.line(deadline)?;
            if line != "DATA" {
                return Err(format!("authentication was refused: {line}"));
            }
        }
        let line = self.line(deadline)?;
        if !line.starts_with("OK ") {
            return Err(format!("authentication was refused: {line}"));
        }
        Ok(())
    }

    fn say(&mut self, text: &str) -> Result<(), String> {
        let told = |error: io::Error| error.to_string();
        self.stream
            .set_write_timeout(Some(self.patience))
            .map_err(told)?;
        self.stream.write_all(text.as_bytes()).map_err(told)
    }

    /// Reads a line of the authentication.
    fn line(&mut self, deadline: Instant) -> Result<String, String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.fill(&mut byte, deadline)?;
            line.push(byte[0]);
            if line.len() > 1024 {
                return Err("the authentication response is too long".to_owned());
            }
        }
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    }

    fn hello(&mut self) -> Result<(), String> {
        let call = Call {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            method: "Hello",
        };
        self.call(&call, &Body::new("")).map(drop)
    }

    fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, String> {
        let mut fixed = [0; FIXED];
        self.fill(&mut fixed, deadline)?;
        let mut message = vec![0; message::length(&fixed)?];
        message[..FIXED].copy_from_slice(&fixed);
        self.fill(&mut message[FIXED..], deadline)?;
        Ok(message)
    }

    fn fill(&mut self, mut buffer: &mut [u8], deadline: Instant) -> Result<(), String> {
        while !buffer.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "no response after {} seconds",
                    self.patience.as_secs()
                ));
            }
            self.stream
                .set_read_timeout(Some(left))
                .map_err(|error| error.to_string())?;
            match self.stream.read(buffer) {
                Ok(0) => return Err("the peer closed the connection".to_owned()),
                Ok(read) => buffer = &mut buffer[read..],
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::Interrupted => {}
                    _ => return Err(error.to_string()),
                },
            }
        }
        Ok(())
    }
}

/// The inode number of the initial user namespace (`PROC_USER_INIT_INO` of the kernel).
const FIRST_USERS: u64 = 0xefff_fffd;

fn own_ids_are_the_nodes() -> bool {
    // Without this file the kernel has no user namespaces.
    rustix::fs::stat("/proc/self/ns/user").map_or(true, |look| look.st_ino == FIRST_USERS)
}

/// Returns the sockets of a D-Bus address list: `unix:path=…`, separated by semicolons. Other transports are skipped.
pub(super) fn addresses(text: &str) -> impl Iterator<Item = PathBuf> {
    text.split(';').filter_map(|one| {
        let mut pairs = one.strip_prefix("unix:")?.split(',');
        let path = pairs.find_map(|pair| pair.strip_prefix("path="))?;
        unescape(path).map(PathBuf::from)
    })
}

/// Decodes `%` and two digits, which stand for a byte.
fn unescape(text: &str) -> Option<OsString> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, then)) = rest.split_first() {
        rest = then;
        if first == b'%' {
            let (digits, then) = rest.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = then;
        } else {
            bytes.push(first);
        }
    }
    Some(OsString::from_vec(bytes))
}

#[cfg(test)]
#[path = "dbus_tests.rs"]
mod tests;
