//! The memory of the process that is looked at.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::elf::Source;

/// Nothing larger is read of it in one go.
const LARGEST: usize = 64 << 20;

/// The memory of a process; it may end at any time.
#[derive(Debug)]
pub(crate) struct Memory(File);

impl Memory {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// A file in place of a process's memory.
    #[cfg(test)]
    pub(super) fn of_file(file: File) -> Self {
        Self(file)
    }

    /// What begins at an address, as one that counts from there.
    pub(crate) fn from(&self, start: u64) -> From<'_> {
        From(self, start)
    }
}

impl Source for Memory {
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        (length <= LARGEST).then_some(())?;
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// Memory from an address on.
#[derive(Debug)]
pub(crate) struct From<'a>(&'a Memory, u64);

impl Source for From<'_> {
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        self.0.bytes(self.1.checked_add(at)?, length)
    }
}
