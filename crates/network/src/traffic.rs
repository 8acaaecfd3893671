//! What went over the interfaces of a namespace.

use std::fs::File;
use std::io;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

/// What the kernel hands out at once at most, and the longest line by far: what is shorter than
/// the difference is all there is.
const PAGE: usize = 4096;
const LINE: usize = 512;

/// Nobody has more interfaces.
const MAX: usize = 1 << 20;

/// An interface's figures.
#[derive(Debug, PartialEq, Eq)]
pub struct InterfaceTraffic {
    /// The interface.
    pub name: String,
    /// What came in.
    pub received: Direction,
    /// What went out.
    pub sent: Direction,
}

/// What went one way.
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

/// The figures of a namespace's interfaces, to be read again and again.
///
/// The namespace stays for as long as this does.
#[derive(Debug)]
pub struct TrafficReader(File);

impl TrafficReader {
    /// Of the namespace that a process lives in.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/net/dev")).map(Self)
    }

    /// What went over the interfaces so far, without the loopback one.
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

/// The interfaces of the namespace that a process lives in, without the loopback one.
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

/// A line as proc(5) has it: eight figures of what was received, then eight of what was sent.
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
