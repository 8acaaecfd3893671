//! Block devices.

use std::collections::BTreeMap;

use super::file::{Files, Name};
use crate::Error;

/// I/O of a cgroup on one block device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Reads the statistics of all devices.
pub(super) fn read(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Vec<DeviceStats>, Error> {
    let mut devices = Devices::default();
    let v2 = files.is_v2();
    if let Some(text) = files.text(Name::IoBytes, buffer)? {
        let text = String::from_utf8_lossy(text);
        if v2 {
            parse_v2(&text, &mut devices);
        } else {
            parse_v1(&text, &mut devices, |device| {
                (&mut device.read_bytes, &mut device.write_bytes)
            });
        }
    }
    if let Some(text) = files.text(Name::IoOperations, buffer)? {
        parse_v1(&String::from_utf8_lossy(text), &mut devices, |device| {
            (&mut device.reads, &mut device.writes)
        });
    }
    Ok(devices.0.into_values().collect())
}

#[derive(Default)]
struct Devices(BTreeMap<(u32, u32), DeviceStats>);

impl Devices {
    fn entry(&mut self, number: &str) -> Option<&mut DeviceStats> {
        let (major, minor) = number.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        let new = DeviceStats {
            major,
            minor,
            ..DeviceStats::default()
        };
        Some(self.0.entry((major, minor)).or_insert(new))
    }
}

/// Parses `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`.
fn parse_v2(text: &str, devices: &mut Devices) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(device) = words.next().and_then(|number| devices.entry(number)) else {
            continue;
        };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let Ok(value) = value.parse() else { continue };
            match name {
                "rbytes" => device.read_bytes = value,
                "wbytes" => device.write_bytes = value,
                "rios" => device.reads = value,
                "wios" => device.writes = value,
                _ => {}
            }
        }
    }
}

/// Parses `8:0 Read 1`, one line per kind of access, and a total without a device.
fn parse_v1(
    text: &str,
    devices: &mut Devices,
    fields: impl Fn(&mut DeviceStats) -> (&mut u64, &mut u64),
) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(number), Some(kind), Some(value)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Ok(value), Some(device)) = (value.parse(), devices.entry(number)) else {
            continue;
        };
        let (read, write) = fields(device);
        match kind {
            "Read" => *read = value,
            "Write" => *write = value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_the_same() {
        let mut v2 = Devices::default();
        parse_v2(
            "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=9\n7:1 \n",
            &mut v2,
        );
        let mut v1 = Devices::default();
        let bytes = "8:0 Read 1\n8:0 Write 2\n8:0 Sync 9\n8:0 Total 12\nTotal 12\n";
        parse_v1(bytes, &mut v1, |device| {
            (&mut device.read_bytes, &mut device.write_bytes)
        });
        parse_v1("8:0 Read 3\n8:0 Write 4\n", &mut v1, |device| {
            (&mut device.reads, &mut device.writes)
        });
        let expected = DeviceStats {
            major: 8,
            minor: 0,
            read_bytes: 1,
            write_bytes: 2,
            reads: 3,
            writes: 4,
        };
        assert_eq!(v2.0[&(8, 0)], expected);
        assert_eq!(v1.0.into_values().collect::<Vec<_>>(), [expected]);
    }
}
