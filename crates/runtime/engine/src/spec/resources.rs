//! Resource limits: conversion for the specification, updates, and the status.

use std::collections::{BTreeMap, HashMap};

use orlop_cgroup::cpu_weight;
use orlop_cri_api::v1;
use orlop_oci_types::{Cpu, HugepageLimit, Memory, Pids, Resources};

use super::Error;
use super::input::HostFacts;

/// The file of CPU weights in cgroup v2.
const CPU_WEIGHT: &str = "cpu.weight";

/// Converts the limits of a request, without device rules.
pub fn limits(
    request: Option<&v1::LinuxContainerResources>,
    host: &HostFacts,
    pids_limit: Option<i64>,
    field: &str,
    warnings: &mut Vec<String>,
) -> Result<Resources, Error> {
    let mut resources = Resources {
        pids: pids_limit.map(|limit| Pids { limit: Some(limit) }),
        ..Resources::default()
    };
    if let Some(request) = request {
        resources.cpu = Some(cpu(request, field)?);
        resources.memory = Some(memory(request, host, field)?);
        resources.hugepage_limits = hugepages(&request.hugepage_limits, host, field, warnings)?;
        resources.unified = unified(&request.unified, host, field)?;
        weigh(&mut resources, host);
    }
    Ok(resources)
}

/// Sets CPU shares as a weight of cgroup v2.
///
/// Old runtimes convert shares to weights linearly, so the default of 1024 becomes 39 of 100: siblings made
/// by systemd would get more than twice as much. The explicit weight enforces today's conversion for all
/// runtimes.
pub(super) fn weigh(resources: &mut Resources, host: &HostFacts) {
    let shares = resources.cpu.as_ref().and_then(|cpu| cpu.shares);
    if let Some(shares) = shares.filter(|_| host.cgroup_v2) {
        resources
            .unified
            .entry(CPU_WEIGHT.to_owned())
            .or_insert_with(|| cpu_weight(shares).to_string());
    }
}

/// Returns the requested cgroup v2 files, without the weight that was derived from shares.
fn asked_unified(resources: &Resources) -> HashMap<String, String> {
    let shares = resources.cpu.as_ref().and_then(|cpu| cpu.shares);
    let made = shares.map(|shares| cpu_weight(shares).to_string());
    let asked = |(file, value): &(&String, &String)| {
        file.as_str() != CPU_WEIGHT || Some(*value) != made.as_ref()
    };
    resources
        .unified
        .iter()
        .filter(asked)
        .map(|(file, value)| (file.clone(), value.clone()))
        .collect()
}

/// Returns a container's limits after an update; values of the update replace current ones.
pub fn updated(current: &Resources, update: &Resources) -> Resources {
    let mut next = current.clone();
    if let Some(new) = &update.cpu {
        let cpu = next.cpu.get_or_insert_default();
        cpu.shares = new.shares.or(cpu.shares);
        cpu.quota = new.quota.or(cpu.quota);
        cpu.period = new.period.or(cpu.period);
        cpu.realtime_runtime = new.realtime_runtime.or(cpu.realtime_runtime);
        cpu.realtime_period = new.realtime_period.or(cpu.realtime_period);
        for (new, old) in [(&new.cpus, &mut cpu.cpus), (&new.mems, &mut cpu.mems)] {
            if !new.is_empty() {
                new.clone_into(old);
            }
        }
    }
    if let Some(new) = &update.memory {
        let memory = next.memory.get_or_insert_default();
        memory.limit = new.limit.or(memory.limit);
        memory.swap = new.swap.or(memory.swap);
        memory.reservation = new.reservation.or(memory.reservation);
        memory.kernel = new.kernel.or(memory.kernel);
        memory.kernel_tcp = new.kernel_tcp.or(memory.kernel_tcp);
        memory.swappiness = new.swappiness.or(memory.swappiness);
        memory.disable_oom_killer = new.disable_oom_killer.or(memory.disable_oom_killer);
        memory.use_hierarchy = new.use_hierarchy.or(memory.use_hierarchy);
    }
    if let Some(new) = &update.pids {
        next.pids = Some(new.clone());
    }
    for new in &update.hugepage_limits {
        match next
            .hugepage_limits
            .iter_mut()
            .find(|own| own.page_size == new.page_size)
        {
            Some(own) => own.limit = new.limit,
            None => next.hugepage_limits.push(new.clone()),
        }
    }
    next.unified.extend(update.unified.clone());
    next
}

/// Converts the limits in force for the status.
pub fn report(resources: &Resources, oom_score_adj: Option<i32>) -> v1::ContainerResources {
    let cpu = resources.cpu.clone().unwrap_or_default();
    let memory = resources.memory.clone().unwrap_or_default();
    let hugepage = |limit: &HugepageLimit| v1::HugepageLimit {
        page_size: limit.page_size.clone(),
        limit: limit.limit,
    };
    v1::ContainerResources {
        linux: Some(v1::LinuxContainerResources {
            cpu_period: cpu.period.map_or(0, |period| period as i64),
            cpu_quota: cpu.quota.unwrap_or(0),
            cpu_shares: cpu.shares.map_or(0, |shares| shares as i64),
            memory_limit_in_bytes: memory.limit.unwrap_or(0),
            oom_score_adj: oom_score_adj.unwrap_or(0).into(),
            cpuset_cpus: cpu.cpus,
            cpuset_mems: cpu.mems,
            hugepage_limits: resources.hugepage_limits.iter().map(hugepage).collect(),
            unified: asked_unified(resources),
            memory_swap_limit_in_bytes: memory.swap.unwrap_or(0),
        }),
        windows: None,
    }
}

fn cpu(request: &v1::LinuxContainerResources, field: &str) -> Result<Cpu, Error> {
    let unsigned = |value: i64, name: &str| match u64::try_from(value) {
        Ok(0) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Error::invalid(
            format!("{field}.{name}"),
            format!("{value} is negative"),
        )),
    };
    Ok(Cpu {
        period: unsigned(request.cpu_period, "cpu_period")?,
        quota: Some(request.cpu_quota).filter(|quota| *quota != 0),
        shares: unsigned(request.cpu_shares, "cpu_shares")?,
        cpus: list(&request.cpuset_cpus, &format!("{field}.cpuset_cpus"))?,
        mems: list(&request.cpuset_mems, &format!("{field}.cpuset_mems"))?,
        ..Cpu::default()
    })
}

/// Validates a list like `0-3,7`.
pub(super) fn list(text: &str, field: &str) -> Result<String, Error> {
    let number = |text: &str| text.parse::<u16>().ok();
    let fits = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last)
        }
        None => number(part).is_some(),
    };
    if text.is_empty() || text.split(',').all(fits) {
        return Ok(text.to_owned());
    }
    Err(Error::invalid(
        field,
        format!("{text:?} is not a list such as \"0-3,7\""),
    ))
}

fn memory(
    request: &v1::LinuxContainerResources,
    host: &HostFacts,
    field: &str,
) -> Result<Memory, Error> {
    let limit = Some(request.memory_limit_in_bytes).filter(|limit| *limit != 0);
    let asked = Some(request.memory_swap_limit_in_bytes).filter(|swap| *swap != 0);
    for (value, name) in [
        (limit, "memory_limit_in_bytes"),
        (asked, "memory_swap_limit_in_bytes"),
    ] {
        if value.is_some_and(|value| value < -1) {
            let problem = "must be a number of bytes, or -1 for no limit";
            return Err(Error::invalid(format!("{field}.{name}"), problem));
        }
    }
    // Without a swap value there is no swap: the sum of both is the memory limit.
    let swap = if host.swap_accounting {
        asked.or(limit)
    } else {
        None
    };
    Ok(Memory {
        limit,
        swap,
        ..Memory::default()
    })
}

/// Converts limits of huge pages. Kubelets send 0 for every page size, even if nothing can limit them.
pub(super) fn hugepages(
    requested: &[v1::HugepageLimit],
    host: &HostFacts,
    field: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<HugepageLimit>, Error> {
    let mut limits = Vec::new();
    for limit in requested {
        let size = &limit.page_size;
        if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let problem = format!("{size:?} is not a page size such as \"2MB\"");
            return Err(Error::invalid(format!("{field}.hugepage_limits"), problem));
        }
        if host.hugepage_sizes.contains(size) {
            limits.push(HugepageLimit {
                page_size: size.clone(),
                limit: limit.limit,
            });
        } else if limit.limit != 0 {
            warnings.push(format!(
                "{field}.hugepage_limits: pages of {size} are not limited, because the node has no \
                 hugetlb controller for this size"
            ));
        }
    }
    Ok(limits)
}

/// Validates names, which become files in the container's cgroup: none may lead elsewhere.
pub(super) fn unified<'a>(
    requested: impl IntoIterator<Item = (&'a String, &'a String)>,
    host: &HostFacts,
    field: &str,
) -> Result<BTreeMap<String, String>, Error> {
    let field = || format!("{field}.unified");
    let mut settings = BTreeMap::new();
    for (name, value) in requested {
        if !host.cgroup_v2 {
            return Err(Error::unmet(
                field(),
                "is set, but this node uses cgroup v1",
            ));
        }
        let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let fits = name.split_once('.').is_some_and(|(controller, file)| {
            !controller.is_empty() && !file.is_empty() && !file.starts_with('.')
        });
        if !fits || !name.chars().all(in_name) || name.starts_with("cgroup.") {
            let problem = format!("{name:?} is not a cgroup controller setting");
            return Err(Error::invalid(field(), problem));
        }
        if value.contains('\0') {
            return Err(Error::invalid(
                field(),
                format!("the value of {name} contains a NUL character"),
            ));
        }
        settings.insert(name.clone(), value.clone());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::facts;
    use super::*;

    const FIELD: &str = "config.linux.resources";

    fn made(request: &v1::LinuxContainerResources, host: &HostFacts) -> Result<Resources, Error> {
        limits(Some(request), host, None, FIELD, &mut Vec::new())
    }

    #[test]
    fn zero_means_not_set() {
        let resources = made(&v1::LinuxContainerResources::default(), &facts()).unwrap();
        assert_eq!(resources.cpu, Some(Cpu::default()));
        assert_eq!(resources.memory, Some(Memory::default()));
    }

    #[test]
    fn limits_are_taken_over_and_reported() {
        let request = v1::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: -1,
            cpu_shares: 512,
            memory_limit_in_bytes: 1 << 26,
            cpuset_cpus: "0-3,7".into(),
            oom_score_adj: 3,
            ..Default::default()
        };
        let host = HostFacts {
            swap_accounting: true,
            ..facts()
        };
        let resources = made(&request, &host).unwrap();
        assert_eq!(resources.cpu.as_ref().unwrap().quota, Some(-1));
        let linux = report(&resources, Some(3)).linux.unwrap();
        // Swap is in force, though it was not requested.
        assert_eq!(
            linux,
            v1::LinuxContainerResources {
                memory_swap_limit_in_bytes: 1 << 26,
                ..request
            }
        );
    }

    #[test]
    fn swap_is_limited_only_where_it_is_accounted_for() {
        let request = v1::LinuxContainerResources {
            memory_limit_in_bytes: 100,
            memory_swap_limit_in_bytes: 300,
            ..Default::default()
        };
        let with = HostFacts {
            swap_accounting: true,
            ..facts()
        };
        let without = HostFacts {
            swap_accounting: false,
            ..facts()
        };
        assert_eq!(
            made(&request, &with).unwrap().memory.unwrap().swap,
            Some(300)
        );
        assert_eq!(made(&request, &without).unwrap().memory.unwrap().swap, None);
    }

    #[test]
    fn hugepages_without_a_controller_are_no_failure() {
        let pages = |limit| v1::LinuxContainerResources {
            hugepage_limits: vec![v1::HugepageLimit {
                page_size: "2MB".into(),
                limit,
            }],
            ..Default::default()
        };
        let without = HostFacts {
            hugepage_sizes: Vec::new(),
            ..facts()
        };
        for (limit, warned) in [(0, 0), (1 << 21, 1)] {
            let mut warnings = Vec::new();
            let request = pages(limit);
            let made = limits(Some(&request), &without, None, FIELD, &mut warnings).unwrap();
            assert!(made.hugepage_limits.is_empty());
            assert_eq!(warnings.len(), warned);
        }
        let with = HostFacts {
            hugepage_sizes: vec!["2MB".into()],
            ..facts()
        };
        assert_eq!(made(&pages(7), &with).unwrap().hugepage_limits[0].limit, 7);
    }

    #[test]
    fn unified_settings_are_files_of_controllers() {
        let v2 = HostFacts {
            cgroup_v2: true,
            ..facts()
        };
        let request = |name: &str| v1::LinuxContainerResources {
            unified: HashMap::from([(name.to_owned(), "1".to_owned())]),
            ..Default::default()
        };
        assert_eq!(
            made(&request("memory.high"), &v2).unwrap().unified["memory.high"],
            "1"
        );
        for bad in [
            "memory",
            "../x.y",
            "memory./x",
            "cgroup.procs",
            ".x",
            "memory.",
            "a/b.c",
        ] {
            let error = made(&request(bad), &v2).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{bad}");
        }
        let v1_host = HostFacts {
            cgroup_v2: false,
            ..facts()
        };
        let error = made(&request("memory.high"), &v1_host).unwrap_err();
        assert!(matches!(error, Error::FailedPrecondition { .. }));
    }

    #[test]
    fn nonsense_names_its_field() {
        let default = v1::LinuxContainerResources::default;
        for (bad, name) in [
            (
                v1::LinuxContainerResources {
                    cpu_shares: -1,
                    ..default()
                },
                "cpu_shares",
            ),
            (
                v1::LinuxContainerResources {
                    cpuset_cpus: "3-1".into(),
                    ..default()
                },
                "cpuset_cpus",
            ),
            (
                v1::LinuxContainerResources {
                    cpuset_mems: "0;1".into(),
                    ..default()
                },
                "cpuset_mems",
            ),
            (
                v1::LinuxContainerResources {
                    memory_limit_in_bytes: -2,
                    ..default()
                },
                "memory_limit_in_bytes",
            ),
        ] {
            let error = made(&bad, &facts()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{FIELD}.{name}: ")), "{error}");
        }
    }

    #[test]
    fn shares_become_the_weight_of_today_on_version_2() {
        let v2 = HostFacts {
            cgroup_v2: true,
            ..facts()
        };
        let shares = |cpu_shares, unified: &[(&str, &str)]| v1::LinuxContainerResources {
            cpu_shares,
            unified: unified
                .iter()
                .map(|(file, value)| ((*file).to_owned(), (*value).to_owned()))
                .collect(),
            ..Default::default()
        };
        let of = |resources: &Resources| resources.unified.get(CPU_WEIGHT).cloned();
        let told = |resources: &Resources| report(resources, None).linux.unwrap();

        let plain = made(&shares(1024, &[]), &v2).unwrap();
        assert_eq!(of(&plain).as_deref(), Some("100"));
        assert_eq!(told(&plain).cpu_shares, 1024);
        assert!(told(&plain).unified.is_empty(), "nobody asked for it");
        let own = made(&shares(1024, &[("cpu.weight", "7")]), &v2).unwrap();
        assert_eq!(
            of(&own).as_deref(),
            Some("7"),
            "what is asked for goes first"
        );
        assert_eq!(told(&own).unified["cpu.weight"], "7");
        let next = updated(&plain, &made(&shares(2, &[]), &v2).unwrap());
        assert_eq!(of(&next).as_deref(), Some("1"));
        // cgroup v1 takes shares directly.
        assert_eq!(of(&made(&shares(1024, &[]), &facts()).unwrap()), None);
    }

    #[test]
    fn an_update_replaces_only_what_it_names() {
        let request = v1::LinuxContainerResources {
            cpu_shares: 512,
            memory_limit_in_bytes: 100,
            cpuset_cpus: "0".into(),
            ..Default::default()
        };
        let current = made(&request, &facts()).unwrap();
        let update = v1::LinuxContainerResources {
            memory_limit_in_bytes: 200,
            ..Default::default()
        };
        let next = updated(&current, &made(&update, &facts()).unwrap());
        assert_eq!(next.memory.unwrap().limit, Some(200));
        let cpu = next.cpu.unwrap();
        assert_eq!((cpu.shares, cpu.cpus.as_str()), (Some(512), "0"));
    }
}
