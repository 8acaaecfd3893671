//! What was seen, and how often.

use std::collections::HashMap;

/// Kinds of stacks that are kept apart; what comes after them is counted by its innermost place alone.
const MOST: usize = 100_000;
/// Places of all of them together.
const MOST_PLACES: usize = 2 << 20;

/// Who called whom, in one thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The thread's number.
    pub thread: u32,
    /// Places in the kernel, the innermost first.
    pub kernel: Vec<u64>,
    /// Places in the program, the innermost first.
    pub user: Vec<u64>,
    /// Whether the outermost is where the thread began.
    pub is_whole: bool,
}

/// Stacks with how often each was seen.
#[derive(Debug, Default)]
pub struct Stacks {
    seen: HashMap<Stack, u64>,
    places: usize,
}

impl Stacks {
    pub(crate) fn add(&mut self, mut stack: Stack) {
        for most in [1, 0] {
            let places = stack.kernel.len() + stack.user.len();
            // What is cut off at the innermost place has as much room again.
            let times = if most == 1 { 1 } else { 2 };
            let is_full = self.seen.len() >= MOST * times
                || self.places.saturating_add(places) > MOST_PLACES * times;
            if self.seen.contains_key(&stack) || !is_full {
                break;
            }
            stack.kernel.truncate(most);
            stack.user.truncate(most);
            stack.is_whole = false;
        }
        if !self.seen.contains_key(&stack) {
            self.places += stack.kernel.len() + stack.user.len();
        }
        let count = self.seen.entry(stack).or_default();
        *count = count.saturating_add(1);
    }

    /// Each with how often it was seen.
    pub fn iter(&self) -> impl Iterator<Item = (&Stack, u64)> {
        self.seen.iter().map(|(stack, count)| (stack, *count))
    }

    /// How many samples there are.
    pub fn total(&self) -> u64 {
        self.seen.values().sum()
    }

    /// How many of them end before where their thread began.
    pub fn torn(&self) -> u64 {
        let torn = self.seen.iter().filter(|(stack, _)| !stack.is_whole);
        torn.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_without_end_have_one() {
        let deep = |number: usize| Stack {
            thread: 1,
            kernel: Vec::new(),
            user: vec![number as u64; 40],
            is_whole: true,
        };
        let mut stacks = Stacks::default();
        let count = MOST * 2 + 1000;
        for number in 0..count {
            stacks.add(deep(number));
        }
        assert_eq!(stacks.total(), count as u64);
        assert!(stacks.places <= MOST_PLACES * 2);
        assert!(stacks.seen.len() <= MOST * 2 + 1, "{}", stacks.seen.len());
        assert!(stacks.torn() > 0);
        stacks.add(deep(0));
        assert_eq!(stacks.seen[&deep(0)], 2);
    }
}
