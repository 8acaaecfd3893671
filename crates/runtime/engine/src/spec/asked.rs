//! A validated container request, before anything of it is made.

use orlop_cri_api::v1;
use orlop_oci_types::{BlockIo, Capabilities, IntelRdt, Namespace, Resources, Rlimit};

use super::handler_rules::{CGROUP_WRITABLE, is_true};
use super::input::Known;
use super::security_profile::Wanted;
use super::selinux::Labels;
use super::stop_signal::StopSignal;
use super::userns::IdRanges;
use super::{
    Error, apparmor, args, block_io, capabilities, devices, gomaxprocs, hidden_paths, mounts,
    namespaces, oom, rdt, resources, rlimits, seccomp, umask, user, working_dir,
};

/// A request that is validated as far as possible without the container's files and the host paths that it
/// names. Missing values are filled in.
#[derive(Debug)]
pub struct Asked {
    pub(super) security: v1::LinuxContainerSecurityContext,
    /// Whether it uses the node's network.
    pub(super) host_network: bool,
    pub(super) ranges: Option<IdRanges>,
    pub(super) labels: Option<Labels>,
    pub(super) own_cgroup_namespace: bool,
    /// Whether it may create cgroups below its own.
    pub(super) cgroup_writable: bool,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) cwd: String,
    pub(super) user: user::Asked,
    pub(super) umask: Option<u32>,
    pub(super) capabilities: Capabilities,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) apparmor: String,
    pub(super) seccomp: Wanted,
    pub(super) oom_score_adj: Option<i32>,
    pub(super) mounts: Vec<mounts::Asked>,
    pub(super) devices: Vec<devices::Asked>,
    pub(super) masked_paths: Vec<String>,
    pub(super) readonly_paths: Vec<String>,
    pub(super) limits: Resources,
    pub(super) block_io: Option<BlockIo>,
    pub(super) rdt: Option<IntelRdt>,
    pub(super) stop_signal: StopSignal,
    pub(super) warnings: Vec<String>,
}

impl Asked {
    /// Validates a request. It reads the kernel's lists, so run it on a blocking thread.
    pub fn read(known: &Known<'_>) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let linux = known.config.linux.clone().unwrap_or_default();
        let security = linux.security_context.unwrap_or_default();
        let pod = known.pod_config.linux.as_ref();
        let pod = pod.and_then(|linux| linux.security_context.as_ref());
        if security.privileged && !pod.is_some_and(|pod| pod.privileged) {
            let field = "config.linux.security_context.privileged";
            let problem = "is set, but the pod is not privileged";
            return Err(Error::invalid(field, problem));
        }
        let options = security.namespace_options.clone().unwrap_or_default();
        let pod = pod.and_then(|pod| pod.namespace_options.clone());
        let pod = pod.unwrap_or_default();
        let ranges = namespaces::id_ranges(&options, &pod)?;
        if ranges.is_some() && known.namespaces.user.is_none() {
            let field = "config.linux.security_context.namespace_options.userns_options";
            return Err(Error::unmet(field, "the pod has no user namespace"));
        }
        let own_cgroup_namespace = known.host.cgroup_v2 && !security.privileged;
        let hostname = match known.pod_config.hostname.as_str() {
            "" => &known.host.hostname,
            own => own,
        };
        let asked = linux.resources;
        let oom_score_adj = asked.as_ref().map(|asked| asked.oom_score_adj);
        let floor = known.host.oom_score_floor;
        let oom_score_adj = oom_score_adj.map(|asked| oom::score_adj(asked, floor, &mut warnings));
        let base = known.handler.rules.base.as_ref();
        let (masked_paths, readonly_paths) = hidden_paths::lists(&security, base)?;
        let limits = resources::limits(
            asked.as_ref(),
            known.host,
            base.and_then(super::BaseSpec::pids)
                .or(known.policy.pids_limit),
            "config.linux.resources",
            &mut warnings,
        )?;
        let threads = known.policy.min_gomaxprocs;
        let threads = threads.map(|least| gomaxprocs::number(limits.cpu.as_ref(), least));
        Ok(Self {
            host_network: pod.network == i32::from(v1::NamespaceMode::Node),
            ranges,
            labels: labels(known, &security)?,
            own_cgroup_namespace,
            cgroup_writable: cgroup_writable(known, own_cgroup_namespace, &mut warnings)?,
            namespaces: namespaces::list(&options, &pod, known.namespaces, own_cgroup_namespace)?,
            args: args::command(known.config, &known.image)?,
            env: args::environment(known, hostname, threads)?,
            cwd: working_dir::asked(known.config, &known.image)?,
            user: user::Asked::read(&security, known.image.user)?,
            umask: umask::asked(known)?,
            capabilities: capabilities::sets(
                &security,
                base.and_then(super::BaseSpec::capabilities),
                &known.host.capabilities,
                &mut warnings,
            )?,
            rlimits: rlimits::list(
                &rlimits::merged(&known.policy.rlimits, base),
                &known.host.rlimit_ceilings,
                &mut warnings,
            ),
            apparmor: apparmor::profile(&security, known.host.apparmor.as_ref(), &mut warnings)?,
            seccomp: seccomp::asked(
                &security,
                known.handler.features,
                known.policy.seccomp_when_unset,
            )?,
            oom_score_adj: oom_score_adj.transpose()?,
            mounts: mounts::Asked::read(known)?,
            devices: devices::Asked::read(&known.config.devices)?,
            masked_paths,
            readonly_paths,
            limits,
            block_io: block_io::limits(known)?,
            rdt: rdt::class(known)?,
            stop_signal: StopSignal::of_container(
                known.config.stop_signal,
                known.image.stop_signal,
                &mut warnings,
            )?,
            security,
            warnings,
        })
    }
}

impl Asked {
    /// Returns the label of its files, if the node has SELinux.
    pub fn file_label(&self) -> Option<&str> {
        self.labels.as_ref().map(|labels| labels.file.as_str())
    }
}

/// Whether the container may create cgroups below its own. That needs a kernel that protects the limits of
/// the container's own cgroup.
fn cgroup_writable(
    known: &Known<'_>,
    own_namespace: bool,
    warnings: &mut Vec<String>,
) -> Result<bool, Error> {
    let rules = known.handler.rules;
    let defaults = &known.policy.default_annotations;
    let wanted = match rules.acted_on(CGROUP_WRITABLE, known.pod_config, defaults) {
        None => rules.cgroup_writable,
        Some(wanted) => is_true(wanted)
            .map_err(|problem| Error::invalid(format!("annotation {CGROUP_WRITABLE}"), problem))?,
    };
    let mut options = known.host.cgroup_mount_options.iter();
    let missing = if !known.host.cgroup_v2 {
        "the node uses cgroup v1"
    } else if !options.any(|option| option == "nsdelegate") {
        "the node's cgroup file system is mounted without nsdelegate, so containers could raise \
         their own limits"
    } else {
        return Ok(wanted && own_namespace);
    };
    if wanted {
        warnings.push(format!("cgroups stay read-only: {missing}"));
    }
    Ok(false)
}

/// Returns the container's labels: its own options with the pod's level, else the pod's labels.
fn labels(
    known: &Known<'_>,
    security: &v1::LinuxContainerSecurityContext,
) -> Result<Option<Labels>, Error> {
    let (Some(defaults), Some(pod)) = (&known.host.selinux, known.labels) else {
        return Ok(None);
    };
    let mut labels = match &security.selinux_options {
        Some(options) => {
            let level = pod.process.splitn(4, ':').nth(3).unwrap_or_default();
            let labels = Labels::new(Some(options), defaults, level)?;
            labels.check_known()?;
            labels
        }
        None => pod.clone(),
    };
    let pod_security = known
        .pod_config
        .linux
        .as_ref()
        .and_then(|linux| linux.security_context.as_ref());
    let on_host_network = pod_security
        .and_then(|security| security.namespace_options.as_ref())
        .is_some_and(|options| options.network() == v1::NamespaceMode::Node);
    let asks = security.selinux_options.is_some()
        || pod_security.is_some_and(|security| security.selinux_options.is_some());
    let spared = on_host_network && !asks && known.policy.host_network_unconfined;
    if security.privileged || spared {
        labels.process.clear();
    }
    Ok(Some(labels))
}
