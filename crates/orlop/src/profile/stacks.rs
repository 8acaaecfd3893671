//! The samples of a recording, deduplicated by stack.

use std::collections::HashMap;

use super::recording::{Profile, Stack};
use super::symbols::Symbols;

/// Limit of distinct stacks. Further ones are counted by their innermost address only.
const MOST: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Counts by thread and addresses, innermost first.
    seen: HashMap<(usize, Box<[u64]>), u64>,
    threads: HashMap<u32, usize>,
    names: Names,
    lost: u64,
}

/// Interned strings.
#[derive(Debug, Default)]
struct Names {
    all: Vec<String>,
    indexes: HashMap<String, usize>,
}

impl Stacks {
    /// Adds a sample.
    pub(super) fn add(&mut self, thread: u32, places: Box<[u64]>) {
        let names = &mut self.names;
        let thread = *self
            .threads
            .entry(thread)
            .or_insert_with(|| names.index(thread_name(thread)));
        let mut stack = (thread, places);
        if self.seen.len() >= MOST && !self.seen.contains_key(&stack) {
            stack.1 = stack.1.iter().copied().take(1).collect();
            if self.seen.len() >= 2 * MOST && !self.seen.contains_key(&stack) {
                self.lost += 1;
                return;
            }
        }
        *self.seen.entry(stack).or_default() += 1;
    }

    /// Resolves the function names. Blocks on the program's file.
    pub(super) fn named(self, profile: Profile) -> Profile {
        let Self {
            seen,
            mut names,
            lost,
            ..
        } = self;
        let symbols = Symbols::of(seen.keys().flat_map(|(_, places)| code(places)));
        let mut merged: HashMap<(usize, Vec<usize>), u64> = HashMap::new();
        for ((thread, places), count) in seen {
            // In code without frame pointers a false frame leads to no function.
            let known = code(&places).map_while(|place| symbols.name(place));
            let mut functions: Vec<usize> =
                known.map(|name| names.index(name.to_owned())).collect();
            functions.reverse();
            if functions.is_empty() {
                functions.push(names.index("[unknown]".to_owned()));
            }
            *merged.entry((thread, functions)).or_default() += count;
        }
        let stacks = merged
            .into_iter()
            .map(|((thread, functions), count)| Stack {
                thread,
                functions,
                count,
            });
        Profile {
            lost: profile.lost + lost,
            stacks: stacks.collect(),
            names: names.all,
            ..profile
        }
    }
}

/// Returns the addresses of the running code: for a caller, that of the call rather than the return address.
fn code(places: &[u64]) -> impl Iterator<Item = u64> {
    let calls = places.iter().skip(1).map(|place| place.saturating_sub(1));
    places.iter().take(1).copied().chain(calls)
}

fn thread_name(thread: u32) -> String {
    let name = orlop_fs::read_kernel_text(format!("/proc/self/task/{thread}/comm"));
    name.map_or_else(
        |_| "[ended]".to_owned(),
        |name| name.trim_end().replace(char::is_control, "?"),
    )
}

impl Names {
    fn index(&mut self, name: String) -> usize {
        if let Some(index) = self.indexes.get(&name) {
            return *index;
        }
        let index = self.all.len();
        self.all.push(name.clone());
        self.indexes.insert(name, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_without_end_have_one() {
        let mut stacks = Stacks::default();
        let thread = std::process::id();
        let count = 3 * MOST as u64;
        for number in 0..count {
            stacks.add(thread, [number, 1, 2].into());
        }
        assert_eq!(stacks.seen.len(), 2 * MOST);
        let counted: u64 = stacks.seen.values().sum();
        assert_eq!(counted + stacks.lost, count);
        stacks.add(thread, [0, 1, 2].into());
        assert_eq!(stacks.seen.values().sum::<u64>(), counted + 1);
    }

    #[test]
    fn a_caller_is_at_its_call() {
        let places: Vec<u64> = code(&[10, 20, 30]).collect();
        assert_eq!(places, [10, 19, 29]);
    }
}
