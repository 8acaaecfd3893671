//! What went over the interfaces of a namespace.

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

/// The interfaces of the namespace that a process lives in, without the loopback one.
pub fn traffic_of(pid: u32) -> Vec<InterfaceTraffic> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    parse(&text)
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
    Some(InterfaceTraffic {
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
