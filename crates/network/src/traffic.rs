//! Traffic counters of the interfaces in a network namespace.

use std::fs::File;
use std::io;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

/// Maximum number of bytes that the kernel returns per read, and an upper bound of a line's length. A read that is
/// shorter than the difference is complete.
const PAGE: usize = 4096;
const LINE: usize = 512;

/// Maximum size of the file; no namespace has that many interfaces.
const MAX: usize = 1 << 20;

/// The counters of an interface.
#[derive(Debug, PartialEq, Eq)]
pub struct InterfaceTraffic {
    /// The interface's name.
    pub name: String,
    /// Counters of received traffic.
    pub received: Direction,
    /// Counters of sent traffic.
    pub sent: Direction,
}

/// The counters of one direction.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were damaged or could not be sent.
    pub errors: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// Repeatable reader of the counters of a namespace's interfaces.
///
/// The namespace exists as long as this value.
#[derive(Debug)]
pub struct TrafficReader(File);

impl TrafficReader {
    /// Opens the counters of a process's network namespace.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/net/dev")).map(Self)
    }

    /// Reads the current counters of all interfaces except loopback.
    pub fn read(&self) -> io::Result<Vec<InterfaceTraffic>> {
        let mut text = Vec::with_capacity(PAGE);
        loop {
            let at = text.len() as u64;
            let read = match pread(&self.0, spare_capacity(&mut text), at) {
                Err(Errno::INTR) => continue,
                read => read?,
            };
            if text.len() < PAGE - LINE || read == 0 {
                return Ok(parse(&String::from_utf8_lossy(&text)));
            }
            if text.len() > MAX {
                return Err(Errno::FBIG.into());
            }
            text.reserve(PAGE);
        }
    }
}

/// Returns the counters of all interfaces except loopback, in the network namespace of a process.
pub fn traffic_of(pid: u32) -> Vec<InterfaceTraffic> {
    let reader = TrafficReader::of_process(pid);
    reader.and_then(|reader| reader.read()).unwrap_or_default()
}

fn parse(text: &str) -> Vec<InterfaceTraffic> {
    text.lines()
        .filter_map(line)
        .filter(|interface| interface.name != "lo")
        .collect()
}

/// Parses a line as in proc(5): eight counters of received traffic, then eight of sent traffic.
fn line(line: &str) -> Option<InterfaceTraffic> {
    let (name, figures) = line.split_once(':')?;
    let mut figures = figures
        .split_ascii_whitespace()
        .map_while(|figure| figure.parse().ok());
    let received = direction(&mut figures)?;
    let sent = direction(&mut figures.skip(4))?;
    Some(InterfaceTraffic {
        name: name.trim().to_owned(),
        received,
        sent,
    })
}

fn direction(figures: &mut impl Iterator<Item = u64>) -> Option<Direction> {
    Some(Direction {
        bytes: figures.next()?,
        packets: figures.next()?,
        errors: figures.next()?,
        dropped: figures.next()?,
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn interfaces_are_read_without_loopback() {
        let text = "Inter-|   Receive\n face |bytes packets\n\
                    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
                    eth0: 100 2 3 4 0 0 0 0 400 5 6 7 0 0 0 0\n\
                    net1:7 0 0 0 0 0 0 0 8 0 0 0 0 0 0 0\n";
        let interfaces = parse(text);
        let names: Vec<_> = interfaces.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["eth0", "net1"]);
        let received = Direction {
            bytes: 100,
            packets: 2,
            errors: 3,
            dropped: 4,
        };
        assert_eq!(interfaces[0].received, received);
        assert_eq!(
            interfaces[0].sent,
            Direction {
                bytes: 400,
                packets: 5,
                errors: 6,
                dropped: 7
            }
        );
    }

    #[test]
    fn a_file_longer_than_the_kernel_hands_out_at_once_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dev");
        for count in [0, 1, 36, 37, 38, 500] {
            let mut text = String::new();
            for n in 0..count {
                writeln!(text, "{:>97}: {n} 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0", "e").unwrap();
            }
            std::fs::write(&path, text).unwrap();
            let reader = TrafficReader(File::open(&path).unwrap());
            let interfaces = reader.read().unwrap();
            assert_eq!(interfaces.len(), count);
            let last = interfaces.last().map(|last| last.received.bytes + 1);
            assert_eq!(last.unwrap_or(0), count as u64);
        }
    }
}
