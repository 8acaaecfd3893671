//! The kernel's functions.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

/// No kernel names more.
const LARGEST: u64 = 256 << 20;

/// Functions in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Kernel(Vec<(u64, Box<str>)>);

impl Kernel {
    /// What `/proc/kallsyms` says; nothing where it hides the addresses.
    pub(super) fn read() -> Self {
        let Ok(file) = File::open("/proc/kallsyms") else {
            return Self::default();
        };
        let lines = BufReader::new(file.take(LARGEST)).lines();
        let found = lines.map_while(Result::ok);
        let mut found: Vec<_> = found.filter_map(|line| function(&line)).collect();
        found.sort_by_key(|(address, _)| *address);
        Self(found)
    }

    pub(super) fn find(&self, place: u64) -> Option<&str> {
        let after = self.0.partition_point(|(address, _)| *address <= place);
        let (_, name) = self.0.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

/// `ffffffff81000000 T name [module]`; addresses that are hidden are zero.
fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut parts = line.split_ascii_whitespace();
    let address = u64::from_str_radix(parts.next()?, 16).ok()?;
    let is_code = matches!(parts.next()?, "t" | "T" | "w" | "W");
    (is_code && address != 0).then_some((address, parts.next()?.into()))
}
