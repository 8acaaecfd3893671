//! What went over a pod's network interfaces, seen from inside its namespace.

use orlop_cri::v1::{NetworkInterfaceUsage, NetworkUsage};

use super::meter::value;
use crate::clock;

/// The interface of the pod's own network, by convention.
const DEFAULT: &str = "eth0";

/// The figures of the namespace that a process lives in.
pub(super) fn of_process(pid: u32) -> Option<NetworkUsage> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    Some(parse(&text))
}

fn parse(text: &str) -> NetworkUsage {
    let all = text
        .lines()
        .filter_map(interface)
        .filter(|interface| interface.name != "lo");
    let (default, interfaces): (Vec<_>, Vec<_>) =
        all.partition(|interface| interface.name == DEFAULT);
    NetworkUsage {
        timestamp: clock::now(),
        default_interface: default.into_iter().next(),
        interfaces,
    }
}

/// A line as proc(5) has it: eight figures of what was received, then eight of what was sent.
fn interface(line: &str) -> Option<NetworkInterfaceUsage> {
    let (name, figures) = line.split_once(':')?;
    let figures: Vec<u64> = figures
        .split_whitespace()
        .filter_map(|text| text.parse().ok())
        .collect();
    let figure = |index: usize| figures.get(index).copied().and_then(value);
    Some(NetworkInterfaceUsage {
        name: name.trim().to_owned(),
        rx_bytes: figure(0),
        rx_errors: figure(2),
        tx_bytes: figure(8),
        tx_errors: figure(10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_interface_stands_apart() {
        let text = "Inter-|   Receive\n face |bytes packets\n\
                    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
                    eth0: 100 2 3 0 0 0 0 0 400 5 6 0 0 0 0 0\n\
                    net1:7 0 0 0 0 0 0 0 8 0 0 0 0 0 0 0\n";
        let usage = parse(text);
        let default = usage.default_interface.unwrap();
        assert_eq!(default.rx_bytes.unwrap().value, 100);
        assert_eq!(default.rx_errors.unwrap().value, 3);
        assert_eq!(default.tx_bytes.unwrap().value, 400);
        assert_eq!(default.tx_errors.unwrap().value, 6);
        let others: Vec<_> = usage
            .interfaces
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(others, ["net1"]);
    }
}
