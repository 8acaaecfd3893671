//! From a request and the facts to the specification.

use orlop_cri::v1;
use orlop_launch::oci::{Linux, Process, Root, Spec};

use super::default_mounts::Situation;
use super::devices::Grant;
use super::input::SpecInput;
use super::selinux::Labels;
use super::stop_signal::StopSignal;
use super::userns::IdRanges;
use super::{
    Error, annotations, apparmor, args, block_io, capabilities, cdi, devices, hidden_paths,
    hook_dirs, mounts, namespaces, oom, rdt, resources, rlimits, rootfs, seccomp, user,
    working_dir,
};

/// What a container's status reports of its specification.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// User and groups of its first process.
    pub user: v1::ContainerUser,
    /// Its mounts as requested, images with their digest.
    pub mounts: Vec<v1::Mount>,
    /// Limits in force.
    pub resources: v1::ContainerResources,
    /// Signal that asks it to end.
    pub stop_signal: StopSignal,
    /// What was asked for and could not be given on this node, for the log.
    pub warnings: Vec<String>,
}

/// Makes the specification of a container.
///
/// This reads files of the node and of the image, and makes missing host paths and the image's
/// volumes: it blocks, and belongs on a thread of its own.
pub fn build(input: &SpecInput<'_>) -> Result<(Spec, Effective), Error> {
    rootfs::check(input.rootfs.dir)?;
    let mut warnings = Vec::new();
    let request = Request::read(input)?;
    let process = process(input, &request, &mut warnings)?;

    let own_cgroup_namespace = input.host.cgroup_v2 && !request.security.privileged;
    let situation = Situation {
        host: input.host,
        privileged: request.security.privileged,
        ranges: request.ranges.as_ref(),
        host_network: request.pod_options.network == i32::from(v1::NamespaceMode::Node),
        own_cgroup_namespace,
        pod_shm: input.pod.files.shm.is_some(),
    };
    let file_label = request
        .labels
        .as_ref()
        .map_or("", |labels| labels.file.as_str());
    let mounts = mounts::plan(input, &situation, file_label)?;

    let devices = devices::list(&input.config.devices, device_grant(input, &request))?;
    let (masked_paths, readonly_paths) = hidden_paths::lists(&request.security)?;
    let bounding = process
        .capabilities
        .as_ref()
        .map_or(&[][..], |sets| &sets.bounding);
    let seccomp = seccomp::filter(
        &request.security,
        input.handler.features,
        input.policy.seccomp_when_unset,
        bounding,
    )?;
    let mut limits = resources::limits(
        request.resources.as_ref(),
        input.host,
        input.policy.pids_limit,
        "config.linux.resources",
        &mut warnings,
    )?;
    let stop_signal = StopSignal::of_container(
        input.config.stop_signal,
        input.image.stop_signal,
        &mut warnings,
    )?;
    let resources = resources::report(&limits, process.oom_score_adj);
    limits.devices = devices.rules;
    limits.block_io = block_io::limits(input)?;

    let ranges = request.ranges.unwrap_or(IdRanges {
        uids: Vec::new(),
        gids: Vec::new(),
    });
    let namespaces = namespaces::list(
        &request.options,
        &request.pod_options,
        input.pod.namespaces,
        own_cgroup_namespace,
    )?;
    let mut spec = Spec {
        oci_version: Spec::VERSION.to_owned(),
        process: Some(process),
        root: Some(Root {
            path: input.rootfs.path.to_owned(),
            readonly: request.security.readonly_rootfs,
        }),
        mounts: mounts.list,
        annotations: annotations::of_container(input),
        linux: Some(Linux {
            uid_mappings: ranges.uids,
            gid_mappings: ranges.gids,
            resources: Some(limits),
            cgroups_path: input.pod.cgroup.oci_path(input.container_id),
            namespaces,
            devices: devices.nodes,
            seccomp,
            rootfs_propagation: mounts.root_propagation,
            masked_paths,
            readonly_paths,
            mount_label: file_label.to_owned(),
            intel_rdt: rdt::class(input)?,
            ..Linux::default()
        }),
        ..Spec::default()
    };
    cdi::apply(input.config, input.policy, &mut spec)?;
    hook_dirs::apply(
        &input.policy.hook_dirs,
        input.config,
        input.pod_config,
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
        stop_signal,
        warnings,
    };
    Ok((spec, effective))
}

/// The request's parts several concerns look at, with what is absent filled in.
struct Request {
    security: v1::LinuxContainerSecurityContext,
    resources: Option<v1::LinuxContainerResources>,
    options: v1::NamespaceOption,
    pod_options: v1::NamespaceOption,
    ranges: Option<IdRanges>,
    labels: Option<Labels>,
}

impl Request {
    fn read(input: &SpecInput<'_>) -> Result<Self, Error> {
        let linux = input.config.linux.clone().unwrap_or_default();
        let security = linux.security_context.unwrap_or_default();
        let pod_linux = input.pod_config.linux.as_ref();
        let pod_security = pod_linux.and_then(|linux| linux.security_context.as_ref());
        if security.privileged && !pod_security.is_some_and(|pod| pod.privileged) {
            let field = "config.linux.security_context.privileged";
            return Err(Error::invalid(
                field,
                "is set in a pod which is not privileged",
            ));
        }
        let options = security.namespace_options.clone().unwrap_or_default();
        let pod_options = pod_security
            .and_then(|pod| pod.namespace_options.clone())
            .unwrap_or_default();
        let ranges = namespaces::id_ranges(&options, &pod_options)?;
        if ranges.is_some() && input.pod.namespaces.user.is_none() {
            let field = "config.linux.security_context.namespace_options.userns_options";
            return Err(Error::unmet(field, "the pod has no user namespace"));
        }
        let labels = labels(input, &security)?;
        Ok(Self {
            resources: linux.resources,
            options,
            pod_options,
            ranges,
            labels,
            security,
        })
    }
}

/// The container's labels: its own options on the pod's level, else the pod's.
fn labels(
    input: &SpecInput<'_>,
    security: &v1::LinuxContainerSecurityContext,
) -> Result<Option<Labels>, Error> {
    let (Some(defaults), Some(pod)) = (&input.host.selinux, input.pod.labels) else {
        return Ok(None);
    };
    let mut labels = match &security.selinux_options {
        Some(options) => {
            let level = pod.process.splitn(4, ':').nth(3).unwrap_or_default();
            Labels::new(Some(options), defaults, level)?
        }
        None => pod.clone(),
    };
    if security.privileged {
        labels.process.clear();
    }
    Ok(Some(labels))
}

fn process(
    input: &SpecInput<'_>,
    request: &Request,
    warnings: &mut Vec<String>,
) -> Result<Process, Error> {
    let security = &request.security;
    let hostname = match input.pod_config.hostname.as_str() {
        "" => &input.host.hostname,
        own => own,
    };
    let oom_score_adj = match &request.resources {
        Some(asked) => Some(oom::score_adj(
            asked.oom_score_adj,
            input.host.oom_score_floor,
            warnings,
        )?),
        None => None,
    };
    Ok(Process {
        terminal: input.config.tty,
        args: args::command(input.config, &input.image)?,
        env: args::environment(input.config, &input.image, hostname)?,
        cwd: working_dir::working_dir(input.config, &input.image, input.rootfs.dir)?,
        user: user::resolve(
            security,
            input.image.user,
            input.rootfs.dir,
            request.ranges.as_ref(),
        )?,
        capabilities: Some(capabilities::sets(
            security,
            &input.host.capabilities,
            warnings,
        )?),
        rlimits: rlimits::list(&input.policy.rlimits, &input.host.rlimit_ceilings, warnings),
        no_new_privileges: security.no_new_privs,
        apparmor_profile: apparmor::profile(security, input.host.apparmor.as_ref(), warnings)?,
        selinux_label: request
            .labels
            .as_ref()
            .map(|own| own.process.clone())
            .unwrap_or_default(),
        oom_score_adj,
        ..Process::default()
    })
}

fn device_grant(input: &SpecInput<'_>, request: &Request) -> Grant {
    let security = &request.security;
    let owner = |id: &Option<v1::Int64Value>| {
        let id = id.as_ref().and_then(|id| u32::try_from(id.value).ok());
        id.filter(|id| *id != 0 && input.policy.device_ownership_from_security_context)
    };
    Grant {
        host: security.privileged && !input.handler.privileged_without_host_devices,
        uid: owner(&security.run_as_user),
        gid: owner(&security.run_as_group),
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
