//! The stacks of a profile as lines of names.

use crate::profile::recording::{Profile, Stack};

/// Returns the names from the thread inwards with the number of samples, sorted by name.
pub(super) fn lines(profile: &Profile) -> Vec<(Vec<&str>, u64)> {
    let line = |stack: &Stack| {
        let thread = std::iter::once(&stack.thread);
        let names = thread.chain(&stack.functions);
        names.map(|index| profile.names[*index].as_str()).collect()
    };
    let stacks = profile.stacks.iter();
    let mut lines: Vec<(Vec<&str>, u64)> = stacks.map(|it| (line(it), it.count)).collect();
    lines.sort_unstable();
    lines
}
