//! Parsers of the kernel's number formats.

use super::document::Pressure;
use crate::cgroup::files::{Dir, Failed};

/// Returns the content of a file that may be missing.
pub(super) fn if_there<T>(read: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match read {
        Err(failed) if failed.is_not_found() => Ok(None),
        read => read.map(Some),
    }
}

/// Parses lines of a key and a number.
pub(super) fn keys(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}

/// Parses a number; `max` is the highest.
pub(super) fn number(text: &str) -> u64 {
    text.trim()
        .parse()
        .unwrap_or(if text.trim() == "max" { u64::MAX } else { 0 })
}

/// Reads a file of one number; `None` if it is missing.
pub(super) fn number_of(dir: &Dir, file: &str) -> Result<Option<u64>, Failed> {
    Ok(if_there(dir.read(file))?.map(|text| number(&text)))
}

/// Parses one number per CPU.
pub(super) fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect()
}

/// Parses a list like `0-3,7`.
pub(super) fn list(text: &str) -> Vec<u16> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Reads pressure stall information; `None` if the kernel does not count it.
pub(super) fn pressure(dir: &Dir, file: &str) -> Option<Pressure> {
    let text = dir.read(file).ok()?;
    Some(orlop_cgroup::Pressure::parse(&text).into())
}
