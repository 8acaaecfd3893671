//! A profile for others to see.

mod flame;
mod folded;
mod lines;
mod pprof;
mod texts;

use std::io::{self, Write};

use crate::{Names, Profile};

/// How a profile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `profile.proto`, compressed by gzip, as pprof reads it.
    Pprof,
    /// A picture (SVG): the wider, the more time.
    Flamegraph,
    /// A line for each stack: its functions from the outermost on, and how often it was seen.
    Folded,
}

/// Writes a profile down.
pub fn write(
    profile: &Profile,
    names: &Names,
    format: Format,
    into: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Pprof => pprof::write(profile, names, into),
        Format::Flamegraph => flame::write(profile, names, into),
        Format::Folded => folded::write(profile, names, into),
    }
}
