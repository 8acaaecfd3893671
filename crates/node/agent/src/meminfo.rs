//! Memory size and usage of the machine.

use std::collections::BTreeMap;

/// Reads the fields of proc_meminfo(5), in bytes.
pub(crate) fn meminfo() -> BTreeMap<String, u64> {
    let text = orlop_fs::read_kernel_text("/proc/meminfo").unwrap_or_default();
    let fields = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let number: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        let unit = if rest.ends_with("kB") { 1024 } else { 1 };
        Some((name.to_owned(), number * unit))
    });
    fields.collect()
}
