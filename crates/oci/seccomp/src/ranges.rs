//! All call numbers of a machine, as ranges with one verdict each.
//!
//! The kernel uses the same machine value for x86_64 and x32 and distinguishes them by a bit of the number, so they
//! share one range of numbers here. As in runc, a call beyond the last one that the profile names is not forbidden, but
//! unknown (`ENOSYS`), so that programs fall back to an older one.

use crate::arch::X32_BIT;
use crate::fates::{Fate, Fates, Rule};
use crate::{Arch, action};

/// The numbers from `start` to the next range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) verdict: Verdict,
}

/// The action for a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Answer(u32),
    /// The rule list with this index in [`Asked`] decides.
    Ask(usize),
}

/// The distinct lists of rules.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) lists: Vec<(Vec<Rule>, Arch)>,
}

impl Asked {
    fn place(&mut self, rules: Vec<Rule>, arch: Arch) -> usize {
        // On narrow architectures no condition checks upper halves, so equal lists of narrow and wide ones share the
        // same code.
        let known = self.lists.iter().position(|(list, _)| *list == rules);
        known.unwrap_or_else(|| {
            self.lists.push((rules, arch));
            self.lists.len() - 1
        })
    }
}

/// Returns the ranges of a machine: of one architecture, or of x86_64 with x32.
pub(crate) fn of_machine(machine: Vec<Fates>, default: u32, asked: &mut Asked) -> Vec<Range> {
    let ground = Ground::of(&machine, default);
    let mut calls: Vec<(u32, Verdict)> = Vec::new();
    for fates in machine {
        let arch = fates.arch;
        calls.extend(fates.calls.into_iter().map(|(number, fate)| match fate {
            Fate::Always(answer) => (number, Verdict::Answer(answer)),
            Fate::Asked(rules) => (number, Verdict::Ask(asked.place(rules, arch))),
        }));
    }
    calls.sort_unstable_by_key(|(number, _)| *number);

    let mut edges = ground.edges();
    edges.extend(
        calls
            .iter()
            .flat_map(|(number, _)| [*number, number.saturating_add(1)]),
    );
    edges.sort_unstable();
    edges.dedup();

    let mut ranges: Vec<Range> = Vec::with_capacity(edges.len());
    let mut calls = calls.into_iter().peekable();
    for start in edges {
        while calls.next_if(|(number, _)| *number < start).is_some() {}
        let rule = calls.peek().filter(|(number, _)| *number == start);
        let verdict = ground.verdict(start, rule.map(|(_, verdict)| *verdict));
        if ranges.last().is_none_or(|last| last.verdict != verdict) {
            ranges.push(Range { start, verdict });
        }
    }
    ranges
}

/// Verdicts for numbers without rules on a machine.
struct Ground {
    default: u32,
    /// The largest named numbers, without and with the x32 bit; `None` if no number counts as unknown.
    largest: Option<u32>,
    largest_x32: Option<u32>,
    /// On machines with such a bit: whether the profile has the architecture without it, and with it.
    halves: Option<(bool, bool)>,
    /// Whether the kernel reports unknown calls as number 0.
    zero_is_unknown: bool,
}

impl Ground {
    fn of(machine: &[Fates], default: u32) -> Self {
        let strict = !action::is_permissive(default);
        // A profile that names only number 0 does not define which others are unknown.
        let largest = |x32| {
            let fates = machine.iter().find(|fates| fates.arch.is_x32() == x32)?;
            fates.largest.filter(|number| strict && *number != 0)
        };
        let has = |x32| machine.iter().any(|fates| fates.arch.is_x32() == x32);
        let bit = |arch: Arch| arch.is_x86_64() || arch.is_x32();
        let largest = (largest(false), largest(true));
        Self {
            default,
            largest: largest.0,
            largest_x32: largest.1,
            halves: machine
                .iter()
                .any(|fates| bit(fates.arch))
                .then(|| (has(false), has(true))),
            zero_is_unknown: largest.0.is_some()
                && machine.iter().any(|fates| fates.arch.is_s390()),
        }
    }

    /// Returns the numbers where a verdict without a rule may begin.
    fn edges(&self) -> Vec<u32> {
        let past = [self.largest, self.largest_x32];
        let past = past
            .into_iter()
            .flatten()
            .map(|number| number.saturating_add(1));
        [0, 1, X32_BIT, 2 * X32_BIT, 3 * X32_BIT, u32::MAX]
            .into_iter()
            .chain(past)
            .collect()
    }

    /// Returns the verdict for a number with this rule.
    fn verdict(&self, number: u32, rule: Option<Verdict>) -> Verdict {
        let x32 = self.halves.is_some() && number & X32_BIT != 0;
        let largest = if x32 { self.largest_x32 } else { self.largest };
        if largest.is_some_and(|largest| number > largest) || (number == 0 && self.zero_is_unknown)
        {
            return Verdict::Answer(action::UNKNOWN_CALL);
        }
        if let Some(verdict) = rule {
            return verdict;
        }
        let has = match self.halves {
            // Tracers skip a call by setting its number to -1.
            Some((true, false)) => number < X32_BIT || number == u32::MAX,
            Some((false, true)) => number >= X32_BIT,
            _ => true,
        };
        Verdict::Answer(if has { self.default } else { FOREIGN })
    }
}

/// The action for architectures that the profile does not have: libseccomp kills the thread.
pub(crate) const FOREIGN: u32 = action::KILL_THREAD;
