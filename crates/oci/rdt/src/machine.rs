//! The processor's features, from `info` of `resctrl` and the schemata of its root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::error::{Error, Result, failed};
use crate::mask::widest;
use crate::mount::Mount;
use crate::schemata::{self, Schemata};

/// The value for unlimited bandwidth, in megabytes per second.
pub(crate) const UNBOUNDED: u64 = u32::MAX as u64;
/// More groups than any processor supports.
const MOST_GROUPS: usize = 4096;

/// The resources that can be shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    pub(crate) l2: Option<Cache>,
    pub(crate) l3: Option<Cache>,
    pub(crate) bandwidth: Option<Bandwidth>,
    /// The existing groups, without the root.
    pub(crate) groups: BTreeSet<String>,
    /// The maximum number of groups, including the root; `None` if the kernel does not report it.
    pub(crate) most_groups: Option<usize>,
}

/// The caches of one level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cache {
    pub(crate) ids: Vec<u32>,
    /// The mask of all ways.
    pub(crate) full: u64,
    /// The minimum number of ways of a group.
    pub(crate) least: u32,
    /// Whether code and data have separate masks.
    pub(crate) apart: bool,
    /// Ways that are exclusive to a group, by the cache's ID.
    pub(crate) taken: BTreeMap<u32, u64>,
}

/// The memory bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bandwidth {
    pub(crate) ids: Vec<u32>,
    /// The minimum bandwidth of a group.
    pub(crate) least: u64,
    pub(crate) unit: Unit,
}

/// The unit of bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Percent,
    Mbps,
    /// A vendor unit, such as AMD's eighths of gigabytes.
    Makers,
}

impl Machine {
    /// Looks at a mounted `resctrl`.
    pub fn read(mount: &Mount) -> Result<Self> {
        let root = &mount.root;
        let text = read(&root.join("schemata"))?;
        let current = schemata::parse(&text);
        let mut most_groups = None;
        let mut closids = |dir: &Path| -> Result<()> {
            let own = number(&dir.join("num_closids"), 10)? as usize;
            most_groups = Some(most_groups.map_or(own, |most: usize| most.min(own)));
            Ok(())
        };
        let mut caches = Vec::new();
        for level in ["L2", "L3"] {
            let cache = cache(root, level, &current)?;
            if let Some(cache) = &cache {
                closids(&dir_of(root, level, cache.apart))?;
            }
            caches.push(cache);
        }
        let dir = root.join("info/MB");
        let bandwidth = match current.get("MB") {
            Some(domains) if dir.is_dir() => {
                closids(&dir)?;
                let unit = if mount.in_mbps {
                    Unit::Mbps
                } else if domains.values().any(|value| *value > 100) {
                    Unit::Makers
                } else {
                    Unit::Percent
                };
                Some(Bandwidth {
                    ids: domains.keys().copied().collect(),
                    least: number(&dir.join("min_bandwidth"), 10)?,
                    unit,
                })
            }
            _ => None,
        };
        let l3 = caches.pop().flatten();
        Ok(Self {
            l2: caches.pop().flatten(),
            l3,
            bandwidth,
            groups: groups(root)?,
            most_groups,
        })
    }
}

impl Machine {
    /// Returns the largest share of a group: all contiguous ways that are not exclusive to another group, and all
    /// bandwidth. Bandwidth in vendor units is never limited.
    pub(crate) fn everything(&self) -> Schemata {
        let mut all = Schemata::new();
        for (level, cache) in [("L2", &self.l2), ("L3", &self.l3)] {
            let Some(cache) = cache else {
                continue;
            };
            let suffixes: &[&str] = if cache.apart {
                &["CODE", "DATA"]
            } else {
                &[""]
            };
            for suffix in suffixes {
                let masks = cache.ids.iter().filter_map(|id| {
                    let taken = cache.taken.get(id).copied().unwrap_or_default();
                    let mask = widest(cache.full & !taken);
                    (mask.count_ones() >= cache.least).then_some((*id, mask))
                });
                all.insert(format!("{level}{suffix}"), masks.collect());
            }
        }
        if let Some(bandwidth) = &self.bandwidth {
            let most = match bandwidth.unit {
                Unit::Percent => Some(100),
                Unit::Mbps => Some(UNBOUNDED),
                Unit::Makers => None,
            };
            let amounts = most.map(|most| bandwidth.ids.iter().map(|id| (*id, most)).collect());
            all.extend(amounts.map(|amounts| ("MB".to_owned(), amounts)));
        }
        all.retain(|_, domains| !domains.is_empty());
        all
    }
}

fn dir_of(root: &Path, level: &str, apart: bool) -> std::path::PathBuf {
    let apart = if apart { "CODE" } else { "" };
    root.join("info").join(format!("{level}{apart}"))
}

fn cache(root: &Path, level: &str, current: &Schemata) -> Result<Option<Cache>> {
    let apart = dir_of(root, level, true).is_dir();
    let dir = dir_of(root, level, apart);
    let resource = if apart {
        format!("{level}CODE")
    } else {
        level.to_owned()
    };
    let Some(domains) = current.get(&resource).filter(|_| dir.is_dir()) else {
        return Ok(None);
    };
    let full = number(&dir.join("cbm_mask"), 16)?;
    let least = number(&dir.join("min_cbm_bits"), 10)?;
    let bits = full.count_ones();
    let Some(least) = u32::try_from(least).ok().filter(|least| *least <= bits) else {
        let dir = dir.display();
        let problem = format!(
            "{dir} reports a minimum of {least} ways for a group, but the cache has {bits}"
        );
        return Err(Error::Machine(problem));
    };
    let mut taken = BTreeMap::new();
    // Kernels before 4.19 have no such file.
    if let Ok(usage) = read(&dir.join("bit_usage")) {
        taken = taken_by(&usage);
    }
    Ok(Some(Cache {
        ids: domains.keys().copied().collect(),
        full,
        least: least.max(1),
        apart,
        taken,
    }))
}

/// Parses `0=SSSEE0;1=…`, the highest bit first: E is exclusive to a group, P is locked.
fn taken_by(usage: &str) -> BTreeMap<u32, u64> {
    let of = |domain: &str| {
        let (id, letters) = domain.trim().split_once('=')?;
        let bits = letters.bytes().rev().take(64).enumerate();
        let taken = bits.filter(|(_, letter)| matches!(letter, b'E' | b'P'));
        let mask = taken.fold(0_u64, |mask, (at, _)| mask | 1 << at);
        Some((id.trim().parse().ok()?, mask)).filter(|_| mask != 0)
    };
    usage.trim().split(';').filter_map(of).collect()
}

/// Returns the groups below the root.
fn groups(root: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(root).map_err(failed("reading", root))?;
    let names = entries.flatten().take(MOST_GROUPS).filter_map(|entry| {
        let is_group = entry.path().join("tasks").is_file();
        entry.file_name().into_string().ok().filter(|_| is_group)
    });
    Ok(names.collect())
}

pub(crate) fn read(path: &Path) -> Result<String> {
    orlop_fs::read_kernel_text(path).map_err(failed("reading", path))
}

fn number(path: &Path, radix: u32) -> Result<u64> {
    let text = read(path)?;
    u64::from_str_radix(text.trim(), radix).map_err(|_| {
        let path = path.display();
        Error::Machine(format!(
            "{path} contains {:?}, which is not a number",
            text.trim()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::tests::pretended;

    const L3: [(&str, &str); 4] = [
        ("cbm_mask", "fffff\n"),
        ("min_cbm_bits", "2\n"),
        ("num_closids", "16\n"),
        (
            "bit_usage",
            "0=SSSSSSSSSSSSSSSSEES0;1=PSSSSSSSSSSSSSSSSSSS\n",
        ),
    ];

    #[test]
    fn what_a_machine_has_is_read() {
        let schemata = "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n";
        let mut tree = vec![("schemata".to_owned(), schemata)];
        tree.extend(L3.map(|(file, text)| (format!("info/L3/{file}"), text)));
        for (file, text) in [("num_closids", "8\n"), ("min_bandwidth", "10\n")] {
            tree.push((format!("info/MB/{file}"), text));
        }
        tree.push(("own/tasks".to_owned(), ""));
        let (_dir, mut mount) = pretended(&tree);
        let found = Machine::read(&mount).unwrap();
        let l3 = found.l3.unwrap();
        assert_eq!((l3.full, l3.least, l3.apart), (0xf_ffff, 2, false));
        assert_eq!(l3.ids, [0, 1]);
        assert_eq!(l3.taken, [(0, 0b1100), (1, 1 << 19)].into());
        assert_eq!(found.l2, None);
        assert_eq!(found.most_groups, Some(8));
        assert_eq!(found.groups, ["own".to_owned()].into());
        assert_eq!(found.bandwidth.unwrap().unit, Unit::Percent);
        mount.in_mbps = true;
        let found = Machine::read(&mount).unwrap().bandwidth.unwrap();
        assert_eq!((found.unit, found.least), (Unit::Mbps, 10));
    }

    #[test]
    fn code_and_data_apart_and_makers_units_are_seen() {
        let schemata = "MB:0=2048\nL3DATA:0=ffff;\nL3CODE:0=ffff\n";
        let mut tree = vec![("schemata".to_owned(), schemata)];
        for dir in ["L3CODE", "L3DATA"] {
            let file = |(file, text)| (format!("info/{dir}/{file}"), text);
            tree.extend(L3.map(file));
        }
        for (file, text) in [("num_closids", "8\n"), ("min_bandwidth", "1\n")] {
            tree.push((format!("info/MB/{file}"), text));
        }
        let (dir, mount) = pretended(&tree);
        let found = Machine::read(&mount).unwrap();
        assert!(found.l3.unwrap().apart);
        assert_eq!(found.bandwidth.unwrap().unit, Unit::Makers);
        // An unreadable value is named in the error.
        fs::write(dir.path().join("info/L3CODE/min_cbm_bits"), "21\n").unwrap();
        let error = Machine::read(&mount).unwrap_err().to_string();
        assert!(
            error.contains("a minimum of 21 ways for a group, but the cache has 20"),
            "{error}"
        );
        fs::write(dir.path().join("info/L3CODE/cbm_mask"), "odd\n").unwrap();
        let error = Machine::read(&mount).unwrap_err().to_string();
        assert!(
            error.contains("cbm_mask contains \"odd\", which is not a number"),
            "{error}"
        );
    }
}
