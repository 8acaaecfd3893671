//! Kernel files that are opened again for each read.
//!
//! No file stays open: the kernel keeps a buffer of one page for each open file that was read. A pod had a dozen of
//! them with version 1 and twenty with version 2. Opening a pod's files again costs 20 µs, once in the seconds between
//! two reads. Opening them relative to their directory, which is found once per read, takes a third less.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, pread};

use crate::{Cgroup, Error};

/// No statistics file is larger.
const MAX: usize = 1 << 20;

/// Most files have one line; the largest of the usual ones is below two kilobytes.
const USUAL: usize = 4 << 10;

/// A statistics file, with its names in both versions.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    CpuUsage,
    CpuUser,
    CpuSystem,
    CpuStat,
    MemoryUsage,
    MemoryLimit,
    MemoryStat,
    MemoryKernel,
    MemoryPeak,
    MemoryFailures,
    MemoryEvents,
    SwapUsage,
    SwapLimit,
    PidsCurrent,
    PidsLimit,
    IoBytes,
    IoOperations,
    CpuPressure,
    MemoryPressure,
    IoPressure,
}

/// The number of names.
const NAMES: usize = Name::IoPressure as usize + 1;

impl Name {
    /// Returns the controller and the file name in version 1, if it exists there.
    fn v1(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::CpuUsage => ("cpuacct", "cpuacct.usage"),
            Self::CpuUser => ("cpuacct", "cpuacct.usage_user"),
            Self::CpuSystem => ("cpuacct", "cpuacct.usage_sys"),
            Self::CpuStat => ("cpu", "cpu.stat"),
            Self::MemoryUsage => ("memory", "memory.usage_in_bytes"),
            Self::MemoryLimit => ("memory", "memory.limit_in_bytes"),
            Self::MemoryStat => ("memory", "memory.stat"),
            Self::MemoryKernel => ("memory", "memory.kmem.usage_in_bytes"),
            Self::MemoryPeak => ("memory", "memory.max_usage_in_bytes"),
            Self::MemoryFailures => ("memory", "memory.failcnt"),
            Self::MemoryEvents => ("memory", "memory.oom_control"),
            Self::SwapLimit => ("memory", "memory.memsw.limit_in_bytes"),
            Self::PidsCurrent => ("pids", "pids.current"),
            Self::PidsLimit => ("pids", "pids.max"),
            Self::IoBytes => ("blkio", "blkio.throttle.io_service_bytes_recursive"),
            Self::IoOperations => ("blkio", "blkio.throttle.io_serviced_recursive"),
            // memory.stat contains swap; version 1 has no pressure per cgroup.
            Self::SwapUsage | Self::CpuPressure | Self::MemoryPressure | Self::IoPressure => {
                return None;
            }
        })
    }

    /// Returns the file name in version 2, if it exists there.
    fn v2(self) -> Option<&'static str> {
        Some(match self {
            Self::CpuStat => "cpu.stat",
            Self::MemoryUsage => "memory.current",
            Self::MemoryLimit => "memory.max",
            Self::MemoryStat => "memory.stat",
            Self::MemoryPeak => "memory.peak",
            Self::MemoryEvents => "memory.events",
            Self::SwapUsage => "memory.swap.current",
            Self::SwapLimit => "memory.swap.max",
            Self::PidsCurrent => "pids.current",
            Self::PidsLimit => "pids.max",
            Self::IoBytes => "io.stat",
            Self::CpuPressure => "cpu.pressure",
            Self::MemoryPressure => "memory.pressure",
            Self::IoPressure => "io.pressure",
            // cpu.stat, memory.stat, memory.events and io.stat contain these too.
            Self::CpuUsage
            | Self::CpuUser
            | Self::CpuSystem
            | Self::MemoryKernel
            | Self::MemoryFailures
            | Self::IoOperations => return None,
        })
    }
}

/// The known state of a file, after its first read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Slot {
    #[default]
    Unknown,
    Absent,
    /// It existed: if it is missing later, its cgroup is gone.
    Present,
}

/// The files of one cgroup.
#[derive(Debug)]
pub(super) struct Files {
    cgroup: Cgroup,
    slots: [Slot; NAMES],
    /// Open directories by controller, during a read.
    directories: Vec<(&'static str, OwnedFd)>,
}

impl Files {
    /// Creates the files of a cgroup; their state is unknown.
    pub(super) fn of(cgroup: &Cgroup) -> Self {
        Self {
            cgroup: cgroup.clone(),
            slots: [Slot::Unknown; NAMES],
            directories: Vec::new(),
        }
    }

    pub(super) fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    pub(super) fn is_v2(&self) -> bool {
        self.cgroup.hierarchies().is_v2()
    }

    /// Returns the content of a file; `None` if it does not exist.
    pub(super) fn text<'a>(
        &mut self,
        name: Name,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, Error> {
        let slot = self.slots[name as usize];
        let place = if self.is_v2() {
            name.v2().map(|file| ("cgroup", file))
        } else {
            name.v1()
        };
        let Some((controller, file)) = place.filter(|_| slot != Slot::Absent) else {
            return Ok(None);
        };
        let opened = match self.directory(controller) {
            Ok(Some(directory)) => open_in(directory, file),
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        let path = || {
            self.cgroup
                .directory(controller)
                .unwrap_or_default()
                .join(file)
        };
        let (slot, text) = slot.text(opened, path, buffer)?;
        self.slots[name as usize] = slot;
        Ok(text)
    }

    /// Returns the cgroup's directory in the hierarchy of a controller, if there is one.
    fn directory(&mut self, controller: &'static str) -> io::Result<Option<BorrowedFd<'_>>> {
        let known = self
            .directories
            .iter()
            .position(|(of, _)| *of == controller);
        let at = if let Some(at) = known {
            at
        } else {
            let Some(path) = self.cgroup.directory(controller) else {
                return Ok(None);
            };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = open(path, flags, Mode::empty())?;
            self.directories.push((controller, directory));
            self.directories.len() - 1
        };
        Ok(Some(self.directories[at].1.as_fd()))
    }

    /// Closes the directories that a read has opened.
    pub(super) fn close(&mut self) {
        self.directories = Vec::new();
    }

    /// Returns the value of a file with a single number: 0 if it does not exist, the largest number for `max`.
    pub(super) fn number(&mut self, name: Name, buffer: &mut Vec<u8>) -> Result<u64, Error> {
        Ok(self.optional_number(name, buffer)?.unwrap_or_default())
    }

    /// Returns the value of a file with a single number; `None` if it does not exist.
    pub(super) fn optional_number(
        &mut self,
        name: Name,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>, Error> {
        let text = self.text(name, buffer)?;
        Ok(text.map(single))
    }
}

impl Slot {
    /// Returns the content of an opened file, `None` if it does not exist, and the new state of the file.
    pub(super) fn text(
        self,
        opened: io::Result<File>,
        path: impl FnOnce() -> PathBuf,
        buffer: &mut Vec<u8>,
    ) -> Result<(Self, Option<&[u8]>), Error> {
        match opened {
            Ok(file) => {
                read(&file, buffer).map_err(|error| Error::io("reading", path())(error.into()))?;
                Ok((Self::Present, Some(buffer)))
            }
            Err(error) if self != Self::Present && means_absent(&error) => Ok((Self::Absent, None)),
            Err(error) => Err(Error::io("opening", path())(error)),
        }
    }
}

/// Opens a file of a cgroup for reading.
fn open_in(directory: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

/// Returns whether the error means that a file is absent. Pressure files exist but fail if the kernel does not keep the
/// values.
fn means_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

fn read(file: &File, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    buffer.clear();
    buffer.reserve(USUAL);
    loop {
        let (at, room) = (buffer.len(), buffer.capacity() - buffer.len());
        let read = match pread(file, spare_capacity(buffer), at as u64) {
            Err(Errno::INTR) => continue,
            read => read?,
        };
        // The kernel returns each of these files as one record, as much as fits. A short read is the end, and another
        // read would cost as much again.
        if read < room {
            return Ok(());
        }
        if buffer.len() > MAX {
            return Err(Errno::FBIG);
        }
        buffer.reserve(buffer.len());
    }
}

/// Returns the number at the start of a text; the largest one for `max`, 0 for anything else.
pub(super) fn single(text: &[u8]) -> u64 {
    if text.starts_with(b"max") {
        return u64::MAX;
    }
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    })
}

/// Parses lines of `name number`.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let space = line.iter().rposition(|byte| *byte == b' ')?;
        Some((&line[..space], single(&line[space + 1..])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_writes_them() {
        for (text, number) in [
            ("0\n", 0),
            ("9223372036854771712\n", 9_223_372_036_854_771_712),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999999\n", u64::MAX),
            ("max\n", u64::MAX),
            ("", 0),
        ] {
            assert_eq!(single(text.as_bytes()), number, "{text:?}");
        }
        let all: Vec<_> = fields(b"anon 12\nfile 4096\n\ntotal_rss 7").collect();
        let expected: [(&[u8], u64); 3] = [(b"anon", 12), (b"file", 4096), (b"total_rss", 7)];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_file_longer_than_the_buffer_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        for length in [0, 1, USUAL - 1, USUAL, USUAL + 1, 5 * USUAL] {
            let written = vec![b'x'; length];
            std::fs::write(&path, &written).unwrap();
            let (opened, mut buffer) = (File::open(&path), Vec::new());
            let read = Slot::Unknown.text(opened, || path.clone(), &mut buffer);
            let (slot, text) = read.unwrap();
            assert_eq!(
                (slot, text.unwrap()),
                (Slot::Present, &*written),
                "{length}"
            );
        }
    }
}
