//! Stacks as lines of names.

use std::collections::{BTreeMap, HashMap};

use crate::{Names, Profile};

/// What stands for callers that nobody knows.
const UNKNOWN: &str = "[callers unknown]";

/// Each stack, from its thread on inwards, and how often it was seen; in the order of the names.
pub(super) fn lines(profile: &Profile, names: &Names) -> BTreeMap<Vec<String>, u64> {
    let mut known: HashMap<(bool, u64), String> = HashMap::new();
    let mut name = |is_kernel: bool, place: u64| -> String {
        let named = || {
            if is_kernel {
                names.of_kernel(place)
            } else {
                names.of_program(place, profile)
            }
        };
        let name = known.entry((is_kernel, place));
        name.or_insert_with(|| named().function).clone()
    };
    let mut lines = BTreeMap::new();
    for (stack, count) in profile.stacks.iter() {
        let mut line = vec![profile.thread(stack.thread)];
        if !stack.is_whole {
            line.push(UNKNOWN.into());
        }
        line.extend(stack.user.iter().rev().map(|place| name(false, *place)));
        line.extend(stack.kernel.iter().rev().map(|place| name(true, *place)));
        *lines.entry(line).or_default() += count;
    }
    lines
}
