//! A recorded profile, as the daemon sends it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A recorded profile, as the daemon sends it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) pid: u32,
    /// Processor time between two samples.
    pub(crate) period_ns: u64,
    pub(crate) took_ms: u64,
    /// Samples lost because the buffer was full.
    pub(crate) lost: u64,
    /// Names of functions and threads.
    pub(crate) names: Vec<String>,
    pub(crate) stacks: Vec<Stack>,
}

/// One call stack and its number of samples. Names are indexes into [`Profile::names`].
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Stack {
    pub(crate) thread: usize,
    /// Functions of the stack, innermost last.
    pub(crate) functions: Vec<usize>,
    pub(crate) count: u64,
}

impl Profile {
    /// Refuses indexes without a name.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let names = |stack: &Stack| {
            let mut indexes = stack.functions.iter().chain([&stack.thread]);
            indexes.all(|index| *index < self.names.len())
        };
        anyhow::ensure!(self.stacks.iter().all(names), "the profile is incomplete");
        Ok(())
    }

    pub(crate) fn samples(&self) -> u64 {
        self.stacks
            .iter()
            .fold(0, |sum, stack| sum.saturating_add(stack.count))
    }

    /// Returns the processor time of all samples.
    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.samples().saturating_mul(self.period_ns))
    }

    pub(crate) fn took(&self) -> Duration {
        Duration::from_millis(self.took_ms)
    }
}
