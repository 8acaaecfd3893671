//! Processes.

use super::file::{Files, Name};
use crate::Error;

/// Processes and threads of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PidsStats {
    /// The number of processes and threads.
    pub current: u64,
    /// The limit, if there is one.
    pub limit: Option<u64>,
}

/// Reads the number and the limit.
pub(super) fn read(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<PidsStats>, Error> {
    let Some(current) = files.optional_number(Name::PidsCurrent, buffer)? else {
        return Ok(None);
    };
    let limit = files.optional_number(Name::PidsLimit, buffer)?;
    Ok(Some(PidsStats {
        current,
        limit: limit.filter(|limit| *limit != u64::MAX),
    }))
}

/// Reads only the number.
pub(super) fn current(files: &mut Files, buffer: &mut Vec<u8>) -> Result<Option<u64>, Error> {
    files.optional_number(Name::PidsCurrent, buffer)
}
