//! What was seen, and how often.

use std::collections::HashMap;

/// Kinds of stacks that are kept apart; what comes after them is counted by its innermost place alone.
const MOST: usize = 100_000;

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
}

impl Stacks {
    pub(crate) fn add(&mut self, mut stack: Stack) {
        if self.seen.len() >= MOST && !self.seen.contains_key(&stack) {
            stack.kernel.truncate(1);
            stack.user.truncate(1);
            stack.is_whole = false;
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
