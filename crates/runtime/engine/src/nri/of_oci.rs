//! Conversion of an OCI specification to NRI messages.

use orlop_nri::v1alpha1::{
    Container, Hook, Hooks, HugepageLimit, IoPrioClass, LinuxContainer, LinuxCpu, LinuxDevice,
    LinuxDeviceCgroup, LinuxIoPriority, LinuxMemory, LinuxNamespace, LinuxNetDevice, LinuxPids,
    LinuxRdt, LinuxResources, LinuxScheduler, LinuxSchedulerFlag, LinuxSchedulerPolicy,
    LinuxSeccomp, LinuxSeccompArg, LinuxSyscall, Mount, OptionalBool, OptionalFileMode,
    OptionalInt, OptionalInt64, OptionalRepeatedString, OptionalString, OptionalUInt32,
    OptionalUInt64, PosixRlimit, User,
};
use orlop_oci_types as oci;
use serde::Serialize;

/// Fills an NRI container from a specification.
pub fn fill(spec: &oci::Spec, view: &mut Container) {
    view.annotations.clone_from(&spec.annotations);
    view.mounts = spec.mounts.iter().map(mount).collect();
    view.hooks = spec.hooks.as_ref().map(hooks);
    if let Some(process) = &spec.process {
        view.args.clone_from(&process.args);
        view.env.clone_from(&process.env);
        view.rlimits = process.rlimits.iter().map(rlimit).collect();
        view.user = Some(User {
            uid: process.user.uid,
            gid: process.user.gid,
            additional_gids: process.user.additional_gids.clone(),
        });
    }
    view.linux = Some(linux(spec));
}

fn linux(spec: &oci::Spec) -> LinuxContainer {
    let none = oci::Linux::default();
    let linux = spec.linux.as_ref().unwrap_or(&none);
    let process = spec.process.as_ref();
    let score = process.and_then(|process| process.oom_score_adj);
    let io = process.and_then(|process| process.io_priority.as_ref());
    let scheduler = process.and_then(|process| process.scheduler.as_ref());
    let devices = linux.net_devices.iter().map(|(name, device)| {
        let device = LinuxNetDevice {
            name: device.name.clone(),
        };
        (name.clone(), device)
    });
    LinuxContainer {
        namespaces: linux.namespaces.iter().map(namespace).collect(),
        devices: linux.devices.iter().map(device).collect(),
        resources: linux.resources.as_ref().map(resources),
        oom_score_adj: score.map(|value| OptionalInt {
            value: value.into(),
        }),
        cgroups_path: linux.cgroups_path.clone(),
        io_priority: io.map(|io| LinuxIoPriority {
            class: IoPrioClass::from_str_name(&io.class)
                .unwrap_or_default()
                .into(),
            priority: io.priority,
        }),
        seccomp_profile: None,
        seccomp_policy: linux.seccomp.as_ref().and_then(seccomp),
        sysctl: linux.sysctl.clone(),
        net_devices: devices.collect(),
        scheduler: scheduler.map(|own| LinuxScheduler {
            policy: LinuxSchedulerPolicy::from_str_name(&own.policy)
                .unwrap_or_default()
                .into(),
            nice: own.nice,
            priority: own.priority,
            flags: own
                .flags
                .iter()
                .filter_map(|flag| LinuxSchedulerFlag::from_str_name(flag))
                .map(Into::into)
                .collect(),
            runtime: own.runtime,
            deadline: own.deadline,
            period: own.period,
        }),
        rdt: linux.intel_rdt.as_ref().map(|rdt| LinuxRdt {
            clos_id: Some(OptionalString {
                value: rdt.clos_id.clone(),
            }),
            schemata: Some(OptionalRepeatedString {
                value: rdt.schemata.clone(),
            }),
            enable_monitoring: Some(OptionalBool {
                value: rdt.enable_monitoring,
            }),
            remove: false,
        }),
    }
}

fn resources(own: &oci::Resources) -> LinuxResources {
    let signed = |value: Option<i64>| value.map(|value| OptionalInt64 { value });
    let unsigned = |value: Option<u64>| value.map(|value| OptionalUInt64 { value });
    let truth = |value: Option<bool>| value.map(|value| OptionalBool { value });
    let pages = own.hugepage_limits.iter().map(|limit| HugepageLimit {
        page_size: limit.page_size.clone(),
        limit: limit.limit,
    });
    let rules = own.devices.iter().map(|rule| LinuxDeviceCgroup {
        allow: rule.allow,
        r#type: rule.kind.as_ref().map(word).unwrap_or_default(),
        major: signed(rule.major),
        minor: signed(rule.minor),
        access: rule.access.clone(),
    });
    LinuxResources {
        memory: own.memory.as_ref().map(|memory| LinuxMemory {
            limit: signed(memory.limit),
            reservation: signed(memory.reservation),
            swap: signed(memory.swap),
            kernel: signed(memory.kernel),
            kernel_tcp: signed(memory.kernel_tcp),
            swappiness: unsigned(memory.swappiness),
            disable_oom_killer: truth(memory.disable_oom_killer),
            use_hierarchy: truth(memory.use_hierarchy),
        }),
        cpu: own.cpu.as_ref().map(|cpu| LinuxCpu {
            shares: unsigned(cpu.shares),
            quota: signed(cpu.quota),
            period: unsigned(cpu.period),
            realtime_runtime: signed(cpu.realtime_runtime),
            realtime_period: unsigned(cpu.realtime_period),
            cpus: cpu.cpus.clone(),
            mems: cpu.mems.clone(),
        }),
        hugepage_limits: pages.collect(),
        blockio_class: None,
        rdt_class: None,
        unified: own.unified.clone(),
        devices: rules.collect(),
        pids: own.pids.as_ref().map(|pids| LinuxPids {
            limit: pids.limit.unwrap_or(0),
        }),
    }
}

fn seccomp(document: &oci::Profile) -> Option<LinuxSeccomp> {
    let own = document.understood().ok()?;
    let number = |value: Option<u32>| value.map(|value| OptionalUInt32 { value });
    let arg = |arg: &oci::SeccompArg| LinuxSeccompArg {
        index: arg.index,
        value: arg.value,
        value_two: arg.value_two,
        op: word(&arg.op),
    };
    let rule = |rule: &oci::SeccompRule| LinuxSyscall {
        names: rule.names.clone(),
        action: word(&rule.action),
        errno_ret: number(rule.errno_ret),
        args: rule.args.iter().map(arg).collect(),
    };
    Some(LinuxSeccomp {
        default_action: word(&own.default_action),
        default_errno: number(own.default_errno_ret),
        architectures: own.architectures.clone(),
        flags: own.flags.clone().unwrap_or_default(),
        listener_path: own.listener_path.clone(),
        listener_metadata: own.listener_metadata.clone(),
        syscalls: own.syscalls.iter().map(rule).collect(),
    })
}

fn mount(own: &oci::Mount) -> Mount {
    Mount {
        destination: own.destination.clone(),
        r#type: own.kind.clone(),
        source: own.source.clone(),
        options: own.options.clone(),
    }
}

fn hooks(own: &oci::Hooks) -> Hooks {
    let list = |hooks: &[oci::Hook]| {
        let hook = |hook: &oci::Hook| Hook {
            path: hook.path.clone(),
            args: hook.args.clone(),
            env: hook.env.clone(),
            timeout: hook.timeout.map(|value| OptionalInt { value }),
        };
        hooks.iter().map(hook).collect()
    };
    Hooks {
        prestart: list(&own.prestart),
        create_runtime: list(&own.create_runtime),
        create_container: list(&own.create_container),
        start_container: list(&own.start_container),
        poststart: list(&own.poststart),
        poststop: list(&own.poststop),
    }
}

fn rlimit(own: &oci::Rlimit) -> PosixRlimit {
    PosixRlimit {
        r#type: own.kind.clone(),
        hard: own.hard,
        soft: own.soft,
    }
}

fn namespace(own: &oci::Namespace) -> LinuxNamespace {
    LinuxNamespace {
        r#type: word(&own.kind),
        path: own.path.clone(),
    }
}

fn device(own: &oci::Device) -> LinuxDevice {
    let number = |value: Option<u32>| value.map(|value| OptionalUInt32 { value });
    LinuxDevice {
        path: own.path.clone(),
        r#type: word(&own.kind),
        major: own.major,
        minor: own.minor,
        file_mode: own.file_mode.map(|value| OptionalFileMode { value }),
        uid: number(own.uid),
        gid: number(own.gid),
    }
}

/// Serializes a value of an OCI enumeration to its string.
fn word(one: &impl Serialize) -> String {
    match serde_json::to_value(one) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
