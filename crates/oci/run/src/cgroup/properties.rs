//! Limits, device rules and annotations as properties of a systemd unit.

mod variant;

use std::collections::BTreeMap;

use orlop_cgroup::{Limits, Property, Value, limits_as_properties};
use orlop_oci_types::Resources;

use super::devices::{Kind, Rules};
use super::limits::{some, swap_alone};
use crate::error::{Error, Result};

/// systemd's value for "no limit".
const INFINITY: u64 = u64::MAX;

/// Annotations with this prefix are properties.
const PREFIX: &str = "org.systemd.property.";

/// Returns the properties named by annotations. A time in seconds (`TimeoutStopSec`) becomes a property in
/// microseconds.
pub(super) fn of_annotations(annotations: &BTreeMap<String, String>) -> Result<Vec<Property>> {
    let mut all = Vec::new();
    for (key, text) in annotations {
        let Some(name) = key.strip_prefix(PREFIX) else {
            continue;
        };
        let problem = match name {
            _ if name.len() < 3 => Some("too short"),
            _ if !name.bytes().all(|it| it.is_ascii_alphabetic()) => {
                Some("contains non-alphabetic character")
            }
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(Error::new(format!(
                "annotation {key} name incorrect: {problem}"
            )));
        }
        let wrong = |problem: String| {
            Error::new(format!(
                "annotation {key}={text} value parse error: {problem}"
            ))
        };
        let value = variant::parse(text).map_err(wrong)?;
        let stem = name.strip_suffix("Sec");
        let stem = stem.filter(|it| it.ends_with(|last: char| last.is_ascii_lowercase()));
        all.push(match stem {
            Some(stem) => {
                let value = microseconds(&value).ok_or_else(|| wrong("not a number".to_owned()))?;
                Property::new(format!("{stem}USec"), Value::Number(value))
            }
            None => Property::new(name.to_owned(), value),
        });
    }
    Ok(all)
}

fn microseconds(value: &Value) -> Option<u64> {
    const MILLION: u64 = 1_000_000;
    match value {
        Value::Number(value) => value.checked_mul(MILLION),
        Value::Short(value) => Some(u64::from(*value) * MILLION),
        Value::Signed(value) => u64::try_from(*value).ok()?.checked_mul(MILLION),
        Value::SignedShort(value) => u64::try_from(*value).ok()?.checked_mul(MILLION),
        Value::Real(value) => Some((value * MILLION as f64) as u64),
        _ => None,
    }
}

/// Limits that systemd has properties for. Other limits are written to the files only.
pub(super) fn of_resources(resources: &Resources, version: u8) -> Result<Vec<Property>> {
    let cpu = resources.cpu.clone().unwrap_or_default();
    let memory = resources.memory.clone().unwrap_or_default();
    let idle = cpu.idle == Some(1);
    let limits = Limits {
        cpu_shares: some(cpu.shares).filter(|_| !idle && version == 2),
        cpu_quota: some(cpu.quota).or(some(cpu.period).map(|_| -1)),
        cpu_period: some(cpu.period),
        cpuset_cpus: Some(cpu.cpus).filter(|it| !it.is_empty()),
        cpuset_mems: Some(cpu.mems).filter(|it| !it.is_empty()),
        memory: some(memory.limit).filter(|_| version == 2),
        pids: resources
            .pids
            .as_ref()
            .and_then(|it| it.limit)
            .map(|it| if it == 0 { 1 } else { it }),
        ..Limits::default()
    };
    let mut all = limits_as_properties(&limits);
    let mut number =
        |name: &'static str, value: u64| all.push(Property::new(name, Value::Number(value)));
    let or_infinity = |value: i64| u64::try_from(value).unwrap_or(INFINITY);
    if version == 1 {
        if let Some(limit) = some(memory.limit) {
            number("MemoryLimit", or_infinity(limit));
        }
        if let Some(shares) = some(cpu.shares) {
            number("CPUShares", shares);
        }
        if let Some(weight) = resources.block_io.as_ref().and_then(|it| some(it.weight)) {
            number("BlockIOWeight", weight.into());
        }
        return Ok(all);
    }
    if idle {
        number("CPUWeight", 0);
    }
    if let Some(reservation) = some(memory.reservation) {
        number("MemoryLow", or_infinity(reservation));
    }
    if let Some(swap) = swap_alone(&memory)?.filter(|it| *it != 0) {
        number("MemorySwapMax", or_infinity(swap));
    }
    for (file, value) in &resources.unified {
        all.extend(of_file(file, value.trim(), &resources.unified)?);
    }
    Ok(all)
}

/// Returns the systemd property for a cgroup v2 file, if there is one.
fn of_file(file: &str, value: &str, all: &BTreeMap<String, String>) -> Result<Option<Property>> {
    if file.find('.').is_none_or(|at| at == 0) {
        return Err(Error::new(format!(
            "unified resource {file:?} must be in the form CONTROLLER.PARAMETER"
        )));
    }
    let parsed = |value: &str| {
        let number = if value == "max" {
            Ok(INFINITY)
        } else {
            value.parse::<u64>()
        };
        number.map_err(|_| {
            Error::new(format!(
                "unified resource {file:?} value conversion error: {value:?} is not a number"
            ))
        })
    };
    let is_idle = all.get("cpu.idle").is_some_and(|it| it.trim() == "1");
    let name = match file {
        "memory.high" => "MemoryHigh",
        "memory.low" => "MemoryLow",
        "memory.min" => "MemoryMin",
        "memory.max" => "MemoryMax",
        "memory.swap.max" => "MemorySwapMax",
        "pids.max" => {
            let limit = parsed(value)?.max(1);
            return Ok(Some(Property::new("TasksMax", Value::Number(limit))));
        }
        // systemd expresses it as a weight of 0.
        "cpu.idle" if is_idle => return Ok(Some(Property::new("CPUWeight", Value::Number(0)))),
        "cpu.weight" if !is_idle => "CPUWeight",
        "memory.oom.group" => return Ok(None),
        _ => return Ok(of_list_or_quota(file, value)),
    };
    Ok(Some(Property::new(name, Value::Number(parsed(value)?))))
}

fn of_list_or_quota(file: &str, value: &str) -> Option<Property> {
    let mut limits = Limits::default();
    match file {
        "cpuset.cpus" => limits.cpuset_cpus = Some(value.to_owned()),
        "cpuset.mems" => limits.cpuset_mems = Some(value.to_owned()),
        "cpu.max" => {
            let mut words = value.split_whitespace();
            let quota = words.next()?;
            limits.cpu_quota = Some(quota.parse().unwrap_or(-1));
            // The period makes no difference to systemd's share of a second.
            let period = words
                .next()
                .and_then(|it| it.parse().ok())
                .unwrap_or(100_000);
            limits.cpu_period = Some(period);
        }
        _ => return None,
    }
    limits_as_properties(&limits).into_iter().next()
}

/// Returns the OOM policy, which systemd must know when it makes the unit.
pub(super) fn oom_policy(resources: &Resources) -> Option<Property> {
    let policy = match resources.unified.get("memory.oom.group")?.trim() {
        "0" => "continue",
        "1" => "kill",
        _ => return None,
    };
    Some(Property::new("OOMPolicy", Value::Text(policy.to_owned())))
}

/// Rounds the quota to hundredths of a CPU, as systemd does, so that both write the same value.
pub(super) fn as_systemd_rounds(resources: &Resources) -> Resources {
    const HUNDREDTH: u128 = 10_000;
    let mut rounded = resources.clone();
    if let Some(cpu) = &mut rounded.cpu
        && let Some(quota) = cpu.quota.filter(|it| *it > 0)
    {
        let period = u128::from(some(cpu.period).unwrap_or(100_000));
        let per_second =
            (u128::from(quota.unsigned_abs()) * 1_000_000 / period).next_multiple_of(HUNDREDTH);
        cpu.quota = i64::try_from(per_second * period / 1_000_000).ok();
    }
    rounded
}

/// Converts device rules, as far as systemd supports them: it cannot deny single devices among allowed ones. The
/// cgroup's own program, attached afterwards, enforces all rules.
pub(super) fn of_devices(rules: &Rules) -> Vec<Property> {
    let allow = |list| Property::new("DeviceAllow", Value::Pairs(list));
    let policy = |name: &str| Property::new("DevicePolicy", Value::Text(name.to_owned()));
    // An empty list clears earlier entries.
    if rules.all_but && rules.exceptions.is_empty() {
        return vec![allow(Vec::new()), policy("auto")];
    }
    let mut list = Vec::new();
    for (which, access) in rules.exceptions.iter().filter(|_| !rules.all_but) {
        let kind = match which.kind {
            Kind::Block => "block",
            Kind::Char => "char",
        };
        let node = match (which.major, which.minor) {
            (None, None) => format!("{kind}-*"),
            (Some(major), None) => format!("{kind}-{major}"),
            (Some(major), Some(minor)) => format!("/dev/{kind}/{major}:{minor}"),
            (None, Some(_)) => continue,
        };
        list.push((node, access.to_string()));
    }
    vec![allow(Vec::new()), policy("strict"), allow(list)]
}

#[cfg(test)]
#[path = "properties_tests.rs"]
mod tests;
