//! Huge pages.

use std::fs::File;

use super::file::{Slot, single};
use crate::{Cgroup, Error};

/// Huge pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HugetlbStats {
    /// The size, such as `2MB`.
    pub page_size: String,
    /// Bytes in use.
    pub usage: u64,
    /// The highest usage in bytes, if the kernel records it: with version 1 only.
    pub peak: Option<u64>,
}

#[derive(Debug)]
struct Size {
    name: String,
    usage: Slot,
    peak: Slot,
}

/// The files of each size, determined at the first read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    sizes: Option<Vec<Size>>,
}

impl Reader {
    /// Reads all sizes of the kernel.
    pub(super) fn read(
        &mut self,
        cgroup: &Cgroup,
        buffer: &mut Vec<u8>,
    ) -> Result<Vec<HugetlbStats>, Error> {
        let sizes = self.sizes.get_or_insert_with(|| {
            let names = cgroup.hierarchies().hugepage_sizes().into_iter();
            let size = |name| Size {
                name,
                usage: Slot::default(),
                peak: Slot::default(),
            };
            names.map(size).collect()
        });
        let usage_file = if cgroup.hierarchies().is_v2() {
            "current"
        } else {
            "usage_in_bytes"
        };
        let mut found = Vec::with_capacity(sizes.len());
        for size in sizes {
            let name = &size.name;
            let Some(directory) = cgroup.directory("hugetlb") else {
                continue;
            };
            let mut number = |slot: &mut Slot, file: &str| {
                if *slot == Slot::Absent {
                    return Ok(None);
                }
                let path = directory.join(format!("hugetlb.{name}.{file}"));
                let (known, text) = slot.text(File::open(&path), || path, buffer)?;
                *slot = known;
                Ok::<_, Error>(text.map(single))
            };
            let usage = number(&mut size.usage, usage_file)?;
            let peak = number(&mut size.peak, "max_usage_in_bytes")?;
            if let Some(usage) = usage {
                found.push(HugetlbStats {
                    page_size: name.clone(),
                    usage,
                    peak,
                });
            }
        }
        Ok(found)
    }
}
