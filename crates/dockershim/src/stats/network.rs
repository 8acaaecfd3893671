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

/// The interfaces of a process's namespace, without the loopback one.
pub(super) fn interfaces(pid: i32) -> Vec<Interface> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    parse(&text)
}

/// The figures of a process's namespace.
pub(super) fn usage(pid: i32) -> NetworkUsage {
    let (default, others): (Vec<_>, Vec<_>) = interfaces(pid)
        .into_iter()
        .map(|interface| NetworkInterfaceUsage {
            rx_bytes: value(interface.received.bytes),
            rx_errors: value(interface.received.errors),
            tx_bytes: value(interface.sent.bytes),
            tx_errors: value(interface.sent.errors),
            name: interface.name,
        })
        .partition(|interface| interface.name == DEFAULT);
    NetworkUsage {
        timestamp: clock::now(),
        default_interface: default.into_iter().next(),
        interfaces: others,
    }
}

fn parse(text: &str) -> Vec<Interface> {
    let interfaces = text.lines().filter_map(line);
    interfaces
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
    let direction = |first: usize| match figures.get(first..first + 4)? {
        [bytes, packets, errors, dropped] => Some(Direction {
            bytes: *bytes,
            packets: *packets,
            errors: *errors,
            dropped: *dropped,
        }),
        _ => None,
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
                    eth0: 100 2 3 4 0 0 0 0 400 5 6 7 0 0 0 0\n";
        let interfaces = parse(text);
        assert_eq!(interfaces.len(), 1);
        assert_eq!(
            (interfaces[0].received.bytes, interfaces[0].sent.dropped),
            (100, 7)
        );
    }
}
