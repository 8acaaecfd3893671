//! Huge pages.

use super::file::StatFile;
use crate::{Cgroup, Error};

/// Huge pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HugetlbStats {
    /// The size, as `2MB`.
    pub page_size: String,
    /// Bytes in use.
    pub usage: u64,
}

#[derive(Debug)]
pub(super) struct Reader {
    sizes: Vec<(String, StatFile)>,
}

impl Reader {
    pub(super) fn open(cgroup: &Cgroup) -> Result<Self, Error> {
        let directory = cgroup.directory("hugetlb");
        let file = if cgroup.hierarchies().is_v2() {
            "current"
        } else {
            "usage_in_bytes"
        };
        let mut sizes = Vec::new();
        for size in cgroup.hierarchies().hugepage_sizes() {
            let name = format!("hugetlb.{size}.{file}");
            if let Some(file) = StatFile::open(directory.as_deref(), &name)? {
                sizes.push((size, file));
            }
        }
        Ok(Self { sizes })
    }

    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Result<Vec<HugetlbStats>, Error> {
        let mut read = |(size, file): &(String, StatFile)| {
            let usage = file.number(buffer)?.unwrap_or_default();
            Ok(HugetlbStats {
                page_size: size.clone(),
                usage,
            })
        };
        self.sizes.iter().map(&mut read).collect()
    }
}
