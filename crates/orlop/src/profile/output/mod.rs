//! A profile as a file.

mod flame;
mod folded;
mod pprof;

use clap::ValueEnum;

use super::Profile;

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

/// The content of the file.
pub(crate) fn write(profile: &Profile, format: Format) -> Vec<u8> {
    match format {
        Format::Pprof => pprof::write(profile),
        Format::Flamegraph => flame::write(profile).into_bytes(),
        Format::Folded => folded::write(profile).into_bytes(),
    }
}

/// Names from the thread inwards, with the number of samples, in the order of the names.
fn lines(profile: &Profile) -> Vec<(Vec<&str>, u64)> {
    let line = |stack: &super::Stack| {
        let thread = std::iter::once(&stack.thread);
        let names = thread.chain(&stack.functions);
        names.map(|index| profile.names[*index].as_str()).collect()
    };
    let stacks = profile.stacks.iter();
    let mut lines: Vec<(Vec<&str>, u64)> = stacks.map(|it| (line(it), it.count)).collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
pub(super) fn example() -> Profile {
    let stack = |functions: &[usize], count| super::Stack {
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
