//! Building the specification from a request and its facts.

use orlop_cri_api::v1;
use orlop_oci_types::{Linux, Process, Resources, Root, Spec};

use super::asked::Asked;
use super::default_mounts::Situation;
use super::devices::Grant;
use super::input::{Known, SpecInput};
use super::stop_signal::StopSignal;
use super::{
    Error, annotations, cdi, devices, hook_dirs, mounts, resources, rootfs, seccomp, user,
    working_dir,
};

/// Values of a specification that the container's status reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// User and groups of the container's first process.
    pub user: v1::ContainerUser,
    /// The container's mounts as requested, with the digests of images.
    pub mounts: Vec<v1::Mount>,
    /// Limits in effect.
    pub resources: v1::ContainerResources,
    /// The stop signal.
    pub stop_signal: StopSignal,
    /// Requested settings that this node does not support, for the log.
    pub warnings: Vec<String>,
}

/// Builds the specification of a container.
///
/// This reads files of the node and of the image, and makes missing host paths and the image's volumes. It
/// blocks, so run it on a blocking thread.
pub fn build(input: &SpecInput<'_>, asked: Asked) -> Result<(Spec, Effective), Error> {
    let known = &input.known;
    rootfs::check(input.rootfs.dir)?;
    working_dir::check(input.rootfs.dir, &asked.cwd)?;
    let ranges = asked.ranges.as_ref();
    let situation = Situation {
        host: known.host,
        privileged: asked.security.privileged,
        ranges,
        host_network: asked.host_network,
        own_cgroup_namespace: asked.own_cgroup_namespace,
        cgroup_writable: asked.cgroup_writable,
        pod_shm: input.pod.files.shm.is_some(),
    };
    let labels = asked.labels.unwrap_or_default();
    let mut user = asked.user.resolve(input.rootfs.dir, ranges)?;
    user.umask = asked.umask;
    let mounts = mounts::plan(input, asked.mounts, &situation, &labels.file)?;
    let grant = device_grant(known, &asked.security);
    let devices = devices::list(asked.devices, grant)?;
    let seccomp = seccomp::filter(
        &asked.seccomp,
        &asked.capabilities.bounding,
        known.policy.seccomp_deny_socketcall,
    )?;
    let resources = resources::report(&asked.limits, asked.oom_score_adj);
    let limits = Resources {
        devices: devices.rules,
        block_io: asked.block_io,
        ..asked.limits
    };
    let (uid_mappings, gid_mappings) = match asked.ranges {
        Some(ranges) => (ranges.uids, ranges.gids),
        None => (Vec::new(), Vec::new()),
    };
    let process = Process {
        terminal: known.config.tty,
        args: asked.args,
        env: asked.env,
        cwd: asked.cwd,
        user,
        capabilities: Some(asked.capabilities),
        rlimits: asked.rlimits,
        no_new_privileges: asked.security.no_new_privs,
        apparmor_profile: asked.apparmor,
        selinux_label: labels.process,
        oom_score_adj: asked.oom_score_adj,
        ..Process::default()
    };
    let mut spec = Spec {
        oci_version: Spec::VERSION.to_owned(),
        process: Some(process),
        root: Some(Root {
            path: input.rootfs.path.to_owned(),
            readonly: asked.security.readonly_rootfs,
        }),
        mounts: mounts.list,
        annotations: annotations::of_container(input),
        linux: Some(Linux {
            uid_mappings,
            gid_mappings,
            resources: Some(limits),
            cgroups_path: input.pod.cgroup.oci_path(input.container_id),
            namespaces: asked.namespaces,
            devices: devices.nodes,
            seccomp,
            rootfs_propagation: mounts.root_propagation,
            masked_paths: asked.masked_paths,
            readonly_paths: asked.readonly_paths,
            mount_label: labels.file,
            intel_rdt: asked.rdt,
            ..Linux::default()
        }),
        ..Spec::default()
    };
    if let Some(base) = &known.handler.rules.base {
        base.complete(asked.security.privileged, &mut spec);
    }
    if let Some(process) = &mut spec.process {
        // Without a value it would inherit the keeper's, with which the kernel kills it last.
        let lowest = known.host.oom_score_floor.unwrap_or(i32::MIN);
        process.oom_score_adj.get_or_insert(0.max(lowest));
    }
    cdi::apply(known.config, known.policy, &mut spec)?;
    hook_dirs::apply(
        &known.policy.hook_dirs,
        known.config,
        known.pod_config,
        &mut spec,
    )?;
    let user = spec
        .process
        .as_ref()
        .map(|process| user::report(&process.user));
    let effective = Effective {
        user: user.unwrap_or_default(),
        mounts: mounts::report(input),
        resources,
        stop_signal: asked.stop_signal,
        warnings: asked.warnings,
    };
    Ok((spec, effective))
}

fn device_grant(known: &Known<'_>, security: &v1::LinuxContainerSecurityContext) -> Grant {
    let owner = |id: &Option<v1::Int64Value>| {
        let id = id.as_ref().and_then(|id| u32::try_from(id.value).ok());
        id.filter(|id| *id != 0 && known.policy.device_ownership_from_security_context)
    };
    Grant {
        host: security.privileged && !known.handler.privileged_without_host_devices,
        uid: owner(&security.run_as_user),
        gid: owner(&security.run_as_group),
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
