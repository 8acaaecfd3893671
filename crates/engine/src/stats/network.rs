//! What went over a pod's network interfaces, seen from inside its namespace.

use orlop_cri::v1::{NetworkInterfaceUsage, NetworkUsage};

use super::meter::value;
use crate::clock;

/// The interface of the pod's own network, by convention.
const DEFAULT: &str = "eth0";

/// An interface's figures.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) received: Direction,
    pub(super) sent: Direction,
}

/// What went one way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Direction {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) errors: u64,
    pub(super) dropped: u64,
}

/// The interfaces of the namespace that a process lives in, without the loopback one.
pub(super) fn interfaces_of(pid: u32) -> Vec<Interface> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    parse(&text)
}

/// The figures of the namespace that a process lives in.
pub(super) fn of_process(pid: u32) -> NetworkUsage {
    let (default, others): (Vec<_>, Vec<_>) = interfaces_of(pid)
        .iter()
        .map(usage)
        .partition(|interface| interface.name == DEFAULT);
    NetworkUsage {
        timestamp: clock::now(),
        default_interface: default.into_iter().next(),
        interfaces: others,
    }
}

fn usage(interface: &Interface) -> NetworkInterfaceUsage {
    NetworkInterfaceUsage {
        name: interface.name.clone(),
        rx_bytes: value(interface.received.bytes),
        rx_errors: value(interface.received.errors),
        tx_bytes: value(interface.sent.bytes),
        tx_errors: value(interface.sent.errors),
    }
}

fn parse(text: &str) -> Vec<Interface> {
    text.lines()
        .filter_map(line)
        .filter(|interface| interface.name != "lo")
        .collect()
}

/// A line as proc(5) has it: eight figures of what was received, then eight of what was sent.
fn line(line: &str) -> Option<Interface> {
    let (name, figures) = line.split_once(':')?;
    let figures: Vec<u64> = figures
        .split_whitespace()
        .map_while(|text| text.parse().ok())
        .collect();
    let direction = |first: usize| {
        let figures = figures.get(first..first + 4)?;
        Some(Direction {
            bytes: figures[0],
            packets: figures[1],
            errors: figures[2],
            dropped: figures[3],
        })
    };
    Some(Interface {
        name: name.trim().to_owned(),
        received: direction(0)?,
        sent: direction(8)?,
    })
}

#[cfg(test)]
mod tests {
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
}
