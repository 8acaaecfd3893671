//! Time lost waiting for CPU, memory and devices (pressure stall information).

use super::file::{Files, Name};
use crate::Error;

/// Time lost waiting, for each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressureStats {
    /// Waiting for a CPU.
    pub cpu: Option<Pressure>,
    /// Waiting for memory to be freed or read back.
    pub memory: Option<Pressure>,
    /// Waiting for devices.
    pub io: Option<Pressure>,
}

/// Time lost waiting for one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// At least one process was waiting.
    pub some: Stall,
    /// All processes were waiting.
    pub full: Stall,
}

/// Shares of time in percent, and the total time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stall {
    /// Over the last 10 seconds.
    pub avg10: f64,
    /// Over the last minute.
    pub avg60: f64,
    /// Over the last 5 minutes.
    pub avg300: f64,
    /// Since the cgroup was created, in microseconds.
    pub total_us: u64,
}

/// Reads the pressure; empty with version 1, which has none per cgroup.
pub(super) fn read(files: &mut Files, buffer: &mut Vec<u8>) -> Result<PressureStats, Error> {
    if !files.is_v2() {
        return Ok(PressureStats::default());
    }
    let mut one = |name| -> Result<Option<Pressure>, Error> {
        match files.text(name, buffer) {
            Ok(text) => Ok(text.map(|text| Pressure::parse(&String::from_utf8_lossy(text)))),
            // Disabled for this kernel or this cgroup.
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    };
    Ok(PressureStats {
        cpu: one(Name::CpuPressure)?,
        memory: one(Name::MemoryPressure)?,
        io: one(Name::IoPressure)?,
    })
}

impl Pressure {
    /// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=0` and the same for `full`.
    pub fn parse(text: &str) -> Self {
        let mut pressure = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let stall = match words.next() {
                Some("some") => &mut pressure.some,
                Some("full") => &mut pressure.full,
                _ => continue,
            };
            for (name, value) in words.filter_map(|word| word.split_once('=')) {
                let percent = || value.parse().unwrap_or_default();
                match name {
                    "avg10" => stall.avg10 = percent(),
                    "avg60" => stall.avg60 = percent(),
                    "avg300" => stall.avg300 = percent(),
                    "total" => stall.total_us = value.parse().unwrap_or_default(),
                    _ => {}
                }
            }
        }
        pressure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_read() {
        let text = "some avg10=1.50 avg60=0.10 avg300=0.00 total=77\n\
                    full avg10=0.25 avg60=0.00 avg300=0.00 total=5\n";
        let pressure = Pressure::parse(text);
        assert!((pressure.some.avg10 - 1.5).abs() < 1e-9);
        assert_eq!((pressure.some.total_us, pressure.full.total_us), (77, 5));
    }
}
