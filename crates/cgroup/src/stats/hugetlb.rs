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
    /// The most bytes in use at a time, where the kernel remembers it: with version 1 only.
    pub peak: Option<u64>,
}

#[derive(Debug)]
struct Size {
    name: String,
    usage: StatFile,
    peak: Option<StatFile>,
}

#[derive(Debug)]
pub(super) struct Reader {
    sizes: Vec<Size>,
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
            let open = |file: &str| {
                let name = format!("hugetlb.{size}.{file}");
                StatFile::open(directory.as_deref(), &name)
            };
            if let Some(usage) = open(file)? {
                let peak = open("max_usage_in_bytes")?;
                sizes.push(Size {
                    name: size,
                    usage,
                    peak,
                });
            }
        }
        Ok(Self { sizes })
    }

    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Result<Vec<HugetlbStats>, Error> {
        let mut read = |size: &Size| {
            let usage = size.usage.number(buffer)?.unwrap_or_default();
            let peak = match &size.peak {
                Some(file) => file.number(buffer)?,
                None => None,
            };
            Ok(HugetlbStats {
                page_size: size.name.clone(),
                usage,
                peak,
            })
        };
        self.sizes.iter().map(&mut read).collect()
    }
}
