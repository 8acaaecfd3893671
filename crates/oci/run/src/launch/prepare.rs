//! Preparation before the clone, undone if the launch fails.

use std::os::fd::OwnedFd;

use orlop_oci_types::NamespaceKind;

use super::filter::{self, Filter};
use super::options::Options;
use crate::args::Globals;
use crate::bundle::Bundle;
use crate::cgroup::{Cgroup, Entry, Ferry, Holder, Wanted};
use crate::error::{Result, While};
use crate::log::Log;
use crate::mount::name;
use crate::netdev::Devices;
use crate::plan::{
    CgroupMounts, HookSteps, Mappings, Namespaces, Plan, ProcessPlan, RootPlan, c_string, sysctls,
};
use crate::rdt::Rdt;
use crate::state::{State, StateDir, own_descriptors};
use crate::users;

/// A container whose process is still to be created.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) state: State,
    pub(crate) entry_into: Option<OwnedFd>,
    /// Lets systemd move the process into the cgroup.
    pub(crate) ferry: Option<Ferry>,
    pub(crate) holder: Option<Holder>,
    /// Network devices that have been moved to the container.
    pub(crate) devices: Option<Devices>,
}

impl Prepared {
    /// Undoes changes outside the container's directory.
    pub(crate) fn undo(&mut self) {
        if let Some(devices) = self.devices.take() {
            devices.give_back();
        }
        let _ = self.state.cgroup.kill_all(rustix::process::Signal::KILL);
        let _ = self.state.cgroup.remove();
        if let Some(rdt) = &self.state.rdt {
            let _ = rdt.remove();
        }
    }
}

/// Creates and opens everything that a container needs.
pub(crate) fn prepare(
    globals: &Globals,
    log: &Log,
    id: &str,
    bundle: &Bundle,
    options: &Options,
    dir: &StateDir,
) -> Result<Prepared> {
    let (linux, process) = (bundle.linux()?, bundle.process()?);
    if !users::is_root() {
        users::check(&bundle.spec, linux)?;
    }
    users::check_process(process, linux)?;
    let rdt = linux.intel_rdt.as_ref().map(|it| Rdt::plan(id, it));
    let rdt = rdt.transpose()?;
    let namespaces = Namespaces::open(linux)?;
    let users = namespaces.user.as_ref().map(OwnedFd::try_clone).transpose();
    let users = users.doing(|| "linux.namespaces".to_owned())?;
    let mut mappings = Mappings::new(users, &linux.uid_mappings, &linux.gid_mappings);
    let wanted = Wanted::of(globals, id, bundle)?;
    let cgroup = Cgroup::plan(&wanted)?;
    let profile = linux.seccomp.as_ref();
    let filter = profile.map(|profile| filter::filter(&globals.root, bundle, profile, log));
    let filter = filter.transpose()?;
    let listener = profile
        .map(|profile| filter::listener(bundle, profile))
        .transpose()?
        .flatten();
    let mut state = State {
        namespaces: namespaces.all,
        pivoted: namespaces.has(NamespaceKind::Mount) && !options.no_pivot,
        listener,
        rdt,
        descriptors: own_descriptors(process.terminal),
        ..State::new(globals, id, bundle, cgroup)
    };
    log.debug(|| format!("cgroup {:?}", state.cgroup.paths()));
    // Before anything is made that outlives this process.
    dir.save(&state)?;
    if let (Some(rdt), Some(wanted)) = (&mut state.rdt, &linux.intel_rdt) {
        rdt.make(wanted)?;
    }
    let mut warnings = Vec::new();
    let planned = plan(
        log,
        bundle,
        options,
        dir,
        namespaces,
        &mut mappings,
        &state,
        &wanted,
        filter,
        &mut warnings,
    );
    if let (Err(_), Some(rdt)) = (&planned, &state.rdt) {
        let _ = rdt.remove();
    }
    for warning in warnings {
        log.warn(&warning);
    }
    let (plan, entry) = planned?;
    debug_assert!(plan.process.args.strings().len() == process.args.len());
    Ok(Prepared {
        plan,
        state,
        entry_into: entry.into,
        ferry: entry.ferry,
        holder: entry.holder,
        devices: None,
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "it is the second half of one function"
)]
fn plan(
    log: &Log,
    bundle: &Bundle,
    options: &Options,
    dir: &StateDir,
    mut namespaces: Namespaces,
    mappings: &mut Mappings,
    state: &State,
    wanted: &Wanted<'_>,
    filter: Option<Filter>,
    warnings: &mut Vec<String>,
) -> Result<(Plan, Entry)> {
    let spec = &bundle.spec;
    let (linux, process) = (bundle.linux()?, bundle.process()?);
    let sysctls = sysctls(linux, &namespaces)?;
    let mut steps = ProcessPlan::new(process, warnings)?;
    steps.with_linux(linux)?;
    steps.preserve_fds = options.preserve_fds;
    if !options.no_new_keyring {
        steps.keyring = Some(c_string(format!("_ses.{}", state.id), "the container ID")?);
    }
    if let Some(filter) = filter {
        let flags = filter.program.flags();
        log.debug(|| format!("seccomp filter flags: {flags}"));
        filter::write(&dir.filter(), &filter)?;
        steps.seccomp = Some(filter.program);
    }
    let hooks = spec.hooks.clone().unwrap_or_default();
    let create_hooks = HookSteps::new(&hooks.create_container, "createContainer")?;
    let start_hooks = HookSteps::new(&hooks.start_container, "startContainer")?;
    for (stage, hooks) in [
        ("prestart", &hooks.prestart),
        ("createRuntime", &hooks.create_runtime),
        ("poststart", &hooks.poststart),
        ("poststop", &hooks.poststop),
    ] {
        for (index, hook) in hooks.iter().enumerate() {
            crate::plan::check_hook(hook)
                .map_err(|error| error.within(format!("hooks.{stage}[{index}]")))?;
        }
    }
    let owner = namespaces.has_users().then(|| root_of(linux)).flatten();
    let state_dir = dir.make_fifo(owner)?;
    let mut made = Made(None);
    let mut entry = state.cgroup.make(wanted)?;
    made.0 = Some(&state.cgroup);
    let root = if namespaces.has(NamespaceKind::Mount) {
        let hierarchies = state.cgroup.hierarchies();
        let cgroups = CgroupMounts {
            namespace: namespaces.has(NamespaceKind::Cgroup),
            unified: state.cgroup.unified(),
            hierarchies: &hierarchies,
        };
        Some(RootPlan::open(
            bundle,
            linux,
            &namespaces,
            &cgroups,
            mappings,
            !options.no_pivot,
            users::are_not_the_hosts(),
        )?)
    } else {
        None
    };
    namespaces.enters_mounts = root.as_ref().is_some_and(|root| root.few.is_some());
    let bare_root = if root.is_none() {
        if !spec.mounts.is_empty() {
            warnings.push(
                "ignoring mounts: without a mount namespace they would appear on the host"
                    .to_owned(),
            );
        }
        let rootfs = bundle.rootfs();
        let opened = name(&rootfs).doing(|| format!("root.path: {}", rootfs.display()))?;
        Some(opened)
    } else {
        None
    };
    steps.terminal = options.console.terminal(process)?;
    let text = |text: &str, what: &str| -> Result<Option<std::ffi::CString>> {
        if text.is_empty() {
            Ok(None)
        } else {
            c_string(text, what).map(Some)
        }
    };
    let makes_users = namespaces.makes(NamespaceKind::User);
    let plan = Plan {
        waits: makes_users,
        opens_up: makes_users && !users::is_root(),
        meets: !linux.net_devices.is_empty()
            || !hooks.prestart.is_empty()
            || !hooks.create_runtime.is_empty()
            || !create_hooks.steps.is_empty()
            || !start_hooks.steps.is_empty(),
        tasks: std::mem::take(&mut entry.tasks),
        namespaces,
        root,
        bare_root,
        hostname: text(&spec.hostname, "hostname")?,
        domainname: text(&spec.domainname, "domainname")?,
        sysctls,
        create_hooks,
        start_hooks,
        process: steps,
        state_dir: Some(state_dir),
    };
    made.0 = None;
    Ok((plan, entry))
}

/// A created cgroup, removed again unless the launch succeeds. A cgroup that could not be created may belong to another
/// container.
struct Made<'a>(Option<&'a Cgroup>);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if let Some(cgroup) = self.0 {
            let _ = cgroup.remove();
        }
    }
}

/// Returns the host's user and group IDs of root in the container's user namespace.
fn root_of(linux: &orlop_oci_types::Linux) -> Option<(u32, u32)> {
    let root = |maps: &[orlop_oci_types::IdMapping]| {
        maps.iter()
            .find(|map| map.container_id == 0)
            .map(|map| map.host_id)
    };
    Some((root(&linux.uid_mappings)?, root(&linux.gid_mappings)?))
}
