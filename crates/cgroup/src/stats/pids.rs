//! Processes.

use super::file::StatFile;
use crate::{Cgroup, Error};

/// Processes and threads of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PidsStats {
    /// How many there are.
    pub current: u64,
    /// How many there may be, if that is limited.
    pub limit: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Reader {
    current: Option<StatFile>,
    limit: Option<StatFile>,
}

impl Reader {
    pub(super) fn open(cgroup: &Cgroup) -> Result<Self, Error> {
        let directory = cgroup.directory("pids");
        Ok(Self {
            current: StatFile::open(directory.as_deref(), "pids.current")?,
            limit: StatFile::open(directory.as_deref(), "pids.max")?,
        })
    }

    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Result<Option<PidsStats>, Error> {
        let Some(current) = &self.current else {
            return Ok(None);
        };
        let limit = match &self.limit {
            Some(limit) => limit.number(buffer)?,
            None => None,
        };
        Ok(Some(PidsStats {
            current: current.number(buffer)?.unwrap_or_default(),
            limit,
        }))
    }
}
