//! Computes the share of each group: first partitions with separate ways, then classes within them.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::file::{Class, Given, Partition, Partitions};
use crate::machine::{Bandwidth, Cache, Machine, UNBOUNDED, Unit};
use crate::mask::{block, is_block, width};
use crate::schemata::{Schemata, render};
use crate::share::{self, CacheShare, PerCache, Share, Use, Ways};

/// The computed shares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The groups, ordered by the names of partitions.
    pub groups: Vec<Group>,
    /// Settings of the file that this machine does not support, and need not.
    pub notes: Vec<Error>,
}

/// A group, and its share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name of its directory; empty for the root.
    pub name: String,
    /// The line of its class.
    pub line: usize,
    pub(crate) schemata: Schemata,
}

impl Group {
    /// Returns the content of its `schemata` file.
    pub fn text(&self) -> String {
        render(&self.schemata)
    }
}

/// Computes the share of each group on a machine.
pub fn plan(wanted: &Partitions, machine: &Machine) -> Result<Plan> {
    enough_groups(wanted, machine)?;
    let mut schemata: BTreeMap<&str, Schemata> = BTreeMap::new();
    let mut notes = Vec::new();
    let optional = wanted.optional;
    let l2 = Level {
        name: "L2",
        key: "l2Allocation",
        of: |given| given.l2.as_ref(),
    };
    let l3 = Level {
        name: "L3",
        key: "l3Allocation",
        of: |given| given.l3.as_ref(),
    };
    for (level, cache, is_optional) in [
        (l2, &machine.l2, optional.l2),
        (l3, &machine.l3, optional.l3),
    ] {
        if let Some(cache) = cache {
            level.share_out(wanted, cache, &mut schemata)?;
        } else {
            let line = |given: &Given| (level.of)(given).map(|it| it.line);
            let missing = format!("this machine cannot allocate the {} cache", level.name);
            notes.extend(unmet(wanted, line, (level.name, is_optional), &missing)?);
        }
    }
    if let Some(bandwidth) = &machine.bandwidth {
        share_bandwidth(wanted, bandwidth, &mut schemata)?;
    } else {
        let line = |given: &Given| given.mb.as_ref().map(|it| it.line);
        let missing = "this machine cannot allocate memory bandwidth";
        notes.extend(unmet(wanted, line, ("mb", optional.mb), missing)?);
    }
    let groups = wanted.classes().map(|class| Group {
        name: group_of(class).to_owned(),
        line: class.line,
        schemata: schemata.remove(class.name.as_str()).unwrap_or_default(),
    });
    Ok(Plan {
        groups: groups.collect(),
        notes,
    })
}

/// Returns the directory name of a class.
pub(crate) fn group_of(class: &Class) -> &str {
    if class.is_root() { "" } else { &class.name }
}

fn enough_groups(wanted: &Partitions, machine: &Machine) -> Result<()> {
    let Some(most) = machine.most_groups else {
        return Ok(());
    };
    let others = machine.groups.iter();
    let others = others.filter(|name| wanted.class(name).is_none()).count();
    // The root uses one as well.
    let left = most.saturating_sub(others + 1);
    let mut classes: Vec<&Class> = wanted.classes().filter(|own| !own.is_root()).collect();
    classes.sort_by_key(|class| class.line);
    match classes.get(left) {
        None => Ok(()),
        Some(class) => {
            let why = format!(
                "too many classes: this machine has no group left for the class {:?}; it supports \
                 {most} groups, of which {others} belong to other programs and one is the root \
                 group",
                class.name
            );
            Err(wanted.wrong(class.line, why))
        }
    }
}

/// Handles a resource that the machine lacks. A class that needs it is an error.
fn unmet(
    wanted: &Partitions,
    line: impl Fn(&Given) -> Option<usize>,
    (option, is_optional): (&str, bool),
    missing: &str,
) -> Result<Vec<Error>> {
    let of_classes = wanted.classes().filter_map(|class| line(&class.given));
    let of_partitions = wanted.partitions.iter().filter_map(|own| line(&own.given));
    if let (Some(line), false) = (of_classes.min(), is_optional) {
        let option = option.to_lowercase();
        let why = format!("{missing}; to ignore this, set options.{option}.optional");
        return Err(wanted.wrong(line, why));
    }
    let note = of_partitions.min();
    Ok(note
        .map(|line| wanted.wrong(line, missing))
        .into_iter()
        .collect())
}

/// A cache level, with the name of its shares.
#[derive(Clone, Copy)]
struct Level {
    name: &'static str,
    key: &'static str,
    of: fn(&Given) -> Option<&PerCache<CacheShare>>,
}

impl Level {
    fn share_out<'w>(
        self,
        wanted: &'w Partitions,
        cache: &Cache,
        schemata: &mut BTreeMap<&'w str, Schemata>,
    ) -> Result<()> {
        let said = wanted.partitions.iter();
        let is_said = said.clone().any(|own| (self.of)(&own.given).is_some());
        let silent = said.clone().find(|own| (self.of)(&own.given).is_none());
        if let (true, Some(silent)) = (is_said, silent) {
            let why = format!(
                "the partition {:?} does not set {}, but other partitions do; it would get the \
                 whole cache, including their shares",
                silent.name, self.key
            );
            return Err(wanted.wrong(silent.line, why));
        }
        if !is_said && !cache.taken.is_empty() {
            // New groups keep the kernel's default.
            return Ok(());
        }
        let uses: &[(Use, &str)] = if cache.apart {
            &[(Use::Code, "CODE"), (Use::Data, "DATA")]
        } else {
            &[(Use::Any, "")]
        };
        for (used, suffix) in uses {
            let resource = format!("{}{suffix}", self.name);
            for id in &cache.ids {
                let bases = self.bases(wanted, cache, (*used, *id))?;
                for (partition, base) in wanted.partitions.iter().zip(bases) {
                    for class in &partition.classes {
                        let share = (self.of)(&class.given).and_then(|own| own.of(*id));
                        let share = share.map(|own| own.of(*used));
                        let mask = within(base, cache.least, share)
                            .map_err(|why| wrong_share(wanted, class.line, share, why))?;
                        let line = share.map_or(class.line, |own| own.line);
                        self.is_free(wanted, cache, (*id, mask), line)?;
                        let own = schemata.entry(&class.name).or_default();
                        own.entry(resource.clone()).or_default().insert(*id, mask);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the ways of each partition in one cache.
    fn bases(self, wanted: &Partitions, cache: &Cache, (used, id): (Use, u32)) -> Result<Vec<u64>> {
        let shares: Vec<Option<(&Partition, Option<&Share>)>> = wanted
            .partitions
            .iter()
            .map(|own| {
                let given = (self.of)(&own.given)?;
                Some((own, given.of(id).map(|share| share.of(used))))
            })
            .collect();
        let asked: Vec<Asked<'_>> = shares
            .iter()
            .flatten()
            .map(|(partition, share)| Asked {
                line: share.map_or(partition.line, |own| own.line),
                // Without a setting for a cache, the partition asks for all of it.
                ways: share.map_or(Ways::Percent(100), |own| own.ways),
                name: &partition.name,
            })
            .collect();
        if asked.is_empty() {
            return Ok(vec![cache.full; wanted.partitions.len()]);
        }
        let place = format!("{} cache {id}", self.name);
        if asked.iter().any(|own| matches!(own.ways, Ways::Bits(_))) {
            exact(wanted, cache, &asked, &place)
        } else {
            by_hundredths(wanted, cache, &asked, &place)
        }
    }

    fn is_free(
        self,
        wanted: &Partitions,
        cache: &Cache,
        (id, mask): (u32, u64),
        line: usize,
    ) -> Result<()> {
        let taken = mask & cache.taken.get(&id).copied().unwrap_or_default();
        if taken == 0 {
            return Ok(());
        }
        let why = format!(
            "the ways {mask:#x} of {} cache {id} are not free: {taken:#x} are exclusive to another group or locked",
            self.name
        );
        Err(wanted.wrong(line, why))
    }
}

/// The request of a partition for one cache.
struct Asked<'a> {
    line: usize,
    name: &'a str,
    ways: Ways,
}

/// Assigns ways to partitions with explicit masks.
fn exact(wanted: &Partitions, cache: &Cache, asked: &[Asked<'_>], place: &str) -> Result<Vec<u64>> {
    let mut masks: Vec<u64> = Vec::new();
    for own in asked {
        let Ways::Bits(mask) = own.ways else {
            let why = format!(
                "one partition sets a mask of {place}, but {:?} sets a percentage; all partitions must use the same form",
                own.name
            );
            return Err(wanted.wrong(own.line, why));
        };
        let why = if mask & !cache.full != 0 {
            Some(format!("{place} has the ways {:#x}", cache.full))
        } else if mask.count_ones() < cache.least {
            Some(format!("a group needs at least {} ways", cache.least))
        } else {
            let taken = masks.iter().position(|other| other & mask != 0);
            taken.map(|at| {
                let other = asked[at].name;
                format!("the partition {other:?} uses some of these ways, and partitions must not overlap")
            })
        };
        if let Some(why) = why {
            let name = own.name;
            return Err(wanted.wrong(
                own.line,
                format!("{mask:#x} of {place} for {name:?}: {why}"),
            ));
        }
        masks.push(mask);
    }
    Ok(masks)
}

/// Assigns ways to partitions with percentages. Each gets whole ways, small ones first, so that rounding up costs the
/// large ones. The ways are assigned in the order of names.
fn by_hundredths(
    wanted: &Partitions,
    cache: &Cache,
    asked: &[Asked<'_>],
    place: &str,
) -> Result<Vec<u64>> {
    let mut percents = Vec::new();
    for own in asked {
        let Ways::Percent(percent) = own.ways else {
            let why = "the share of a partition is a single percentage such as 60%, not a range";
            return Err(wanted.wrong(own.line, why));
        };
        percents.push(u64::from(percent));
    }
    let total: u64 = percents.iter().sum();
    let last = asked.last().map_or(0, |own| own.line);
    if !(1..=100).contains(&total) {
        let why = format!(
            "the partitions use {total}% of {place} in total; the total must be from 1% to 100%"
        );
        return Err(wanted.wrong(last, why));
    }
    let all = total * u64::from(width(cache.full)) / 100;
    let least = u64::from(cache.least);
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|at| percents[*at]);
    let mut counts = vec![0; asked.len()];
    let mut left = all;
    for (nth, at) in order.iter().enumerate() {
        if left < least {
            let name = asked[*at].name;
            let why =
                format!("no ways of {place} are left for {name:?}, which needs at least {least}");
            return Err(wanted.wrong(asked[*at].line, why));
        }
        // The share of the remaining ways is the partition's part of the remaining percentages.
        let hundredths = (left * total / all).max(1);
        let own = (percents[*at] * left / hundredths).max(least);
        let is_last = nth + 1 == order.len();
        counts[*at] = if is_last { left } else { own.min(left) };
        left -= counts[*at];
    }
    let mut next = 0;
    let masks = counts.iter().map(|count| {
        let (from, to) = (next, next + count);
        next = to;
        block(from as u32, to.saturating_sub(1) as u32)
    });
    Ok(masks.collect())
}

/// Returns a class's share of its partition's ways.
fn within(base: u64, least: u32, share: Option<&Share>) -> std::result::Result<u64, String> {
    let ways = share.map_or(Ways::Percent(100), |own| own.ways);
    if !is_block(base) || base.count_ones() < least {
        return Err(format!(
            "the partition has the ways {base:#x}, but a group needs at least {least} adjacent ways"
        ));
    }
    let (first, count) = (base.trailing_zeros(), base.count_ones());
    let (low, high) = match ways {
        Ways::Bits(bits) => {
            // The bits are relative to the partition's first way.
            let mask = bits.checked_shl(first).filter(|mask| mask >> first == bits);
            let mask = mask.filter(|mask| mask & !base == 0);
            let mask = mask.ok_or_else(|| {
                format!(
                    "the partition has {count} ways, from {first} to {}",
                    first + count - 1
                )
            })?;
            if mask.count_ones() < least {
                return Err(format!("a group needs at least {least} ways"));
            }
            return Ok(mask);
        }
        Ways::Percent(0) => return Err("the share of a class must be greater than 0%".to_owned()),
        Ways::Percent(high) => (1, high),
        Ways::Range(low, high) => (low.max(1), high),
    };
    // The way that contains a percentage point.
    let way = |hundredth: u32| (hundredth - 1) * count / 100;
    let (mut low, mut high) = (way(low), way(high));
    let missing = least.saturating_sub(high - low + 1);
    let below = missing.min(low);
    low -= below;
    high += missing - below;
    Ok(block(first + low, first + high))
}

fn wrong_share(wanted: &Partitions, line: usize, share: Option<&Share>, why: String) -> Error {
    match share {
        Some(share) => wanted.wrong(share.line, format!("{:?}: {why}", share.text)),
        None => wanted.wrong(line, why),
    }
}

fn share_bandwidth<'w>(
    wanted: &'w Partitions,
    machine: &Bandwidth,
    schemata: &mut BTreeMap<&'w str, Schemata>,
) -> Result<()> {
    let amount = |own: Option<&share::Bandwidth>| -> Result<Option<u64>> {
        let Some(own) = own else {
            return Ok(None);
        };
        let (amount, problem) = match machine.unit {
            Unit::Percent => (
                own.percent,
                "add a percentage; this machine allocates memory bandwidth in percent",
            ),
            Unit::Mbps => (
                own.mbps,
                "add a value in MBps; resctrl is mounted with mba_MBps",
            ),
            Unit::Makers => (
                None,
                "this machine allocates memory bandwidth in vendor-specific units, which are not supported",
            ),
        };
        let amount = amount.ok_or_else(|| wanted.wrong(own.line, problem))?;
        Ok(Some(u64::from(amount)))
    };
    for partition in &wanted.partitions {
        for id in &machine.ids {
            let base = amount(partition.given.mb.as_ref().and_then(|own| own.of(*id)))?;
            for class in &partition.classes {
                let own = amount(class.given.mb.as_ref().and_then(|own| own.of(*id)))?;
                let value = match machine.unit {
                    Unit::Percent => {
                        let base = base.unwrap_or(100).max(machine.least);
                        (own.unwrap_or(100) * base / 100).max(machine.least)
                    }
                    Unit::Mbps => base.unwrap_or(UNBOUNDED).min(own.unwrap_or(UNBOUNDED)),
                    Unit::Makers => continue,
                };
                let own = schemata.entry(&class.name).or_default();
                own.entry("MB".to_owned()).or_default().insert(*id, value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
