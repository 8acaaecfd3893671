//! NRI adjustments of arguments, environment and kernel attributes of the process.

use orlop_nri::v1alpha1::{
    ContainerAdjustment, IoPrioClass, KeyValue, LinuxContainerAdjustment, LinuxSchedulerPolicy,
};
use orlop_oci_types::{IoPriority, Process, Rlimit, Scheduler, Spec};

use super::{AdjustFacts, field};
use crate::spec::{Error, oom, rlimits};

pub(super) fn adjust(
    wanted: &ContainerAdjustment,
    facts: &AdjustFacts<'_>,
    spec: &mut Spec,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let process = spec.process.get_or_insert_default();
    environment(&wanted.env, process)?;
    if !wanted.args.is_empty() {
        process.args.clone_from(&wanted.args);
    }
    let limits: Vec<Rlimit> = wanted
        .rlimits
        .iter()
        .map(|limit| Rlimit {
            kind: limit.r#type.clone(),
            hard: limit.hard,
            soft: limit.soft,
        })
        .collect();
    for limit in rlimits::list(&limits, &facts.host.rlimit_ceilings, warnings) {
        if !limit.kind.starts_with("RLIMIT_") || limit.soft > limit.hard {
            let problem = format!(
                "{limit:?} is not a valid resource limit; use a name such as RLIMIT_NOFILE and a \
                 soft limit that does not exceed the hard limit"
            );
            return Err(Error::invalid(field("rlimits"), problem));
        }
        process.rlimits.retain(|own| own.kind != limit.kind);
        process.rlimits.push(limit);
    }
    if let Some(linux) = &wanted.linux {
        of_linux(linux, facts, process, warnings)?;
    }
    Ok(())
}

/// Changes the environment; existing variables keep their position.
fn environment(wanted: &[KeyValue], process: &mut Process) -> Result<(), Error> {
    fn name(variable: &str) -> &str {
        variable.split_once('=').map_or(variable, |(name, _)| name)
    }
    for variable in wanted {
        let key = variable.key.as_str();
        if let Some(gone) = orlop_nri::removed(key) {
            process.env.retain(|own| name(own) != gone);
            continue;
        }
        if key.is_empty() || key.contains(['=', '\0']) || variable.value.contains('\0') {
            let problem = format!(
                "{key:?} is not a valid environment variable name, or its value contains a NUL \
                 character"
            );
            return Err(Error::invalid(field("env"), problem));
        }
        let text = format!("{key}={}", variable.value);
        match process.env.iter_mut().find(|own| name(own) == key) {
            Some(own) => *own = text,
            None => process.env.push(text),
        }
    }
    Ok(())
}

fn of_linux(
    wanted: &LinuxContainerAdjustment,
    facts: &AdjustFacts<'_>,
    process: &mut Process,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    if let Some(score) = &wanted.oom_score_adj {
        let score = oom::score_adj(score.value, facts.host.oom_score_floor, warnings)?;
        process.oom_score_adj = Some(score);
    }
    if let Some(priority) = &wanted.io_priority {
        let class = priority.class();
        process.io_priority = (class != IoPrioClass::IoprioClassNone).then(|| IoPriority {
            class: class.as_str_name().to_owned(),
            priority: priority.priority,
        });
    }
    if let Some(scheduler) = &wanted.scheduler {
        let policy = scheduler.policy();
        process.scheduler = (policy != LinuxSchedulerPolicy::SchedNone).then(|| Scheduler {
            policy: policy.as_str_name().to_owned(),
            nice: scheduler.nice,
            priority: scheduler.priority,
            flags: scheduler
                .flags()
                .map(|flag| flag.as_str_name().to_owned())
                .collect(),
            runtime: scheduler.runtime,
            deadline: scheduler.deadline,
            period: scheduler.period,
        });
    }
    Ok(())
}
