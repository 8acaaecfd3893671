//! Stacks as lines of names.

use std::collections::{BTreeMap, HashMap};

use super::texts::Texts;
use crate::{Names, Profile};

/// What stands for callers that nobody knows.
const UNKNOWN: &str = "[callers unknown]";

/// Each stack by the numbers of its names.
#[derive(Debug)]
pub(super) struct Lines {
    /// In their order, so that numbers are in that order, too.
    names: Vec<String>,
    /// From the thread on inwards, and how often it was seen; in the order of the names.
    all: BTreeMap<Vec<u32>, u64>,
}

/// The lines of a profile.
pub(super) fn lines(profile: &Profile, names: &Names) -> Lines {
    let mut texts = Texts::default();
    let mut known: HashMap<(bool, u64), u32> = HashMap::new();
    let mut lines = Vec::new();
    for (stack, count) in profile.stacks.iter() {
        let mut line = vec![texts.number(&profile.thread(stack.thread))];
        if !stack.is_whole {
            line.push(texts.number(UNKNOWN));
        }
        let user = stack.user.iter().rev().map(|place| (false, *place));
        let kernel = stack.kernel.iter().rev().map(|place| (true, *place));
        for (is_kernel, place) in user.chain(kernel) {
            let number = known.entry((is_kernel, place)).or_insert_with(|| {
                let named = if is_kernel {
                    names.of_kernel(place)
                } else {
                    names.of_program(place, profile)
                };
                texts.number(&named.function)
            });
            line.push(*number);
        }
        lines.push((line, count));
    }
    Lines::of(&texts, lines)
}

impl Lines {
    fn of(texts: &Texts, lines: Vec<(Vec<u32>, u64)>) -> Self {
        let mut order: Vec<(&str, usize)> = texts.all().zip(0..).collect();
        order.sort_unstable();
        let mut places = vec![0; order.len()];
        for (place, (_, number)) in (0..).zip(&order) {
            places[*number] = place;
        }
        let mut all = BTreeMap::new();
        for (mut line, count) in lines {
            for number in &mut line {
                *number = places[*number as usize];
            }
            *all.entry(line).or_default() += count;
        }
        Self {
            names: order.iter().map(|(name, _)| (*name).to_owned()).collect(),
            all,
        }
    }

    /// Each with how often it was seen.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u32], u64)> {
        self.all
            .iter()
            .map(|(line, count)| (line.as_slice(), *count))
    }

    /// The name of a number.
    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_order_of_their_names_and_each_is_there_once() {
        let mut texts = Texts::default();
        let mut line =
            |text: &str| -> Vec<u32> { text.split(' ').map(|name| texts.number(name)).collect() };
        let lines = vec![
            (line("z b"), 1),
            (line("a c"), 2),
            (line("a b"), 4),
            (line("a c"), 8),
        ];
        let lines = Lines::of(&texts, lines);
        let shown: Vec<_> = lines
            .iter()
            .map(|(line, count)| {
                let names: Vec<&str> = line.iter().map(|it| lines.name(*it)).collect();
                (names.join(" "), count)
            })
            .collect();
        let wanted = [("a b", 4), ("a c", 10), ("z b", 1)];
        assert_eq!(shown, wanted.map(|(line, count)| (line.to_owned(), count)));
    }
}
