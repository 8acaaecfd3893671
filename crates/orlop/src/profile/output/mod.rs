//! File formats of a profile.

mod flame;
mod folded;
mod lines;
mod pprof;

use clap::ValueEnum;

use super::recording::Profile;

/// The format of a file.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// profile.proto for pprof, compressed with gzip
    Pprof,
    /// Flame graph for a browser (SVG)
    Flamegraph,
    /// One line per stack
    Folded,
}

/// Returns the content of the file.
pub(crate) fn write(profile: &Profile, format: Format) -> Vec<u8> {
    match format {
        Format::Pprof => pprof::write(profile),
        Format::Flamegraph => flame::write(profile).into_bytes(),
        Format::Folded => folded::write(profile).into_bytes(),
    }
}

#[cfg(test)]
pub(super) fn example() -> Profile {
    let stack = |functions: &[usize], count| super::recording::Stack {
        thread: 0,
        functions: functions.to_vec(),
        count,
    };
    Profile {
        pid: 7,
        period_ns: 10,
        took_ms: 2000,
        lost: 0,
        names: ["worker", "main", "<Vec<T>>::push; x", "read"]
            .map(str::to_owned)
            .to_vec(),
        stacks: vec![stack(&[1, 3], 4), stack(&[1, 2, 3], 2), stack(&[1, 2], 1)],
    }
}
