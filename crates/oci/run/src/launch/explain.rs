//! Converts the child's error numbers to messages.

use orlop_oci_types::{Process, Spec};
use rustix::io::Errno;

use crate::child::hooks::BAD_END;
use crate::error::{Error, meaning};
use crate::plan::source_fault;
use crate::report::{Fault, Step};

/// Returns the error message, with the field of the configuration that caused it.
pub(crate) fn explain(fault: Fault, spec: &Spec) -> Error {
    let index = usize::from(fault.index);
    let why = meaning(fault.errno.raw_os_error());
    let linux = spec.linux.as_ref();
    let of = |list: Option<&Vec<String>>| {
        list.and_then(|list| list.get(index))
            .cloned()
            .unwrap_or_default()
    };
    let mount = |what: &str| {
        let (source, destination) = spec
            .mounts
            .get(index)
            .map_or(("", ""), |mount| (&mount.source, &mount.destination));
        format!(
            "mounts[{index}]: error mounting {source:?} to rootfs at {destination:?}: {what}: {why}"
        )
    };
    let hook = |stage: &str| match fault.errno.raw_os_error() {
        code if code == BAD_END + 127 => {
            format!(
                "error running {stage} hook #{index}: exit status 127 (is the program missing?)"
            )
        }
        code if code > BAD_END => format!(
            "error running {stage} hook #{index}: exit status {}",
            code - BAD_END
        ),
        _ if fault.errno == Errno::TIMEDOUT => {
            format!("error running {stage} hook #{index}: timed out and was killed")
        }
        _ => format!("error running {stage} hook #{index}: {why}"),
    };
    let text = match fault.step {
        Step::MountSource | Step::MountIds => {
            let source = spec.mounts.get(index).map_or("", |mount| &mount.source);
            mount(&format!("{source}{}", source_fault(fault.step)))
        }
        Step::MountTarget if fault.errno == rustix::io::Errno::LOOP => {
            mount("must be mounted on ordinary directory")
        }
        Step::MountTarget => mount("cannot create the mount point"),
        Step::Mount => mount("mount"),
        Step::MountInProc => mount("cannot be mounted because it is inside /proc"),
        Step::MountOptions => mount("cannot change the mount options"),
        Step::MountPropagation => mount("cannot change the mount propagation"),
        Step::CopyUp => mount("tmpcopyup"),
        Step::ReadOnlyMount => mount("cannot make the mount read-only"),
        Step::Join => {
            let path = linux
                .and_then(|linux| linux.namespaces.get(index))
                .map_or("", |it| &it.path);
            format!("linux.namespaces[{index}]: failed to setns into {path}: {why}")
        }
        Step::Mask => format!(
            "linux.maskedPaths[{index}]: can't mask path {:?}: {why}",
            of(linux.map(|it| &it.masked_paths))
        ),
        Step::ReadOnlyPath => format!(
            "linux.readonlyPaths[{index}]: can't make {:?} read-only: {why}",
            of(linux.map(|it| &it.readonly_paths))
        ),
        Step::Device => format!("linux.devices: error creating device nodes: node #{index}: {why}"),
        Step::Sysctl => {
            let name = linux.and_then(|linux| linux.sysctl.keys().nth(index));
            let name = name.map_or("", String::as_str);
            format!("linux.sysctl[{name:?}]: cannot write the value below /proc/sys: {why}")
        }
        Step::Scheduler if fault.errno == Errno::PERM && confined(linux) => format!(
            "process.scheduler: sched_setattr: {why} (process scheduler can't be used together \
             with AllowedCPUs, which linux.resources.cpu.cpus sets)"
        ),
        Step::CreateHook => hook("createContainer"),
        Step::StartHook => hook("startContainer"),
        _ => return of_process(fault, spec.process.as_ref()),
    };
    Error::new(text)
}

/// Returns whether the cgroup restricts the CPUs, with which the kernel refuses deadline scheduling.
fn confined(linux: Option<&orlop_oci_types::Linux>) -> bool {
    let resources = linux.and_then(|linux| linux.resources.as_ref());
    let cpu = resources.and_then(|resources| resources.cpu.as_ref());
    cpu.is_some_and(|cpu| !cpu.cpus.is_empty())
}

/// Returns the error message for a container's first process or one that joins it.
pub(crate) fn of_process(fault: Fault, process: Option<&Process>) -> Error {
    let why = meaning(fault.errno.raw_os_error());
    let program = process
        .and_then(|process| process.args.first())
        .map_or("", String::as_str);
    let text = match fault.step {
        Step::Parent => format!("the runtime exited before the container process was ready: {why}"),
        Step::Intermediate => format!("clone3: {why}"),
        Step::Cgroup => format!("linux.cgroupsPath: unable to enter the cgroup: {why}"),
        Step::Rlimit => {
            let kind = process.and_then(|process| process.rlimits.get(usize::from(fault.index)));
            let kind = kind.map_or("", |limit| &limit.kind);
            format!("process.rlimits[{}]: error setting rlimit {kind}: {why}", fault.index)
        }
        Step::OomScoreAdj => format!("process.oomScoreAdj: write /proc/self/oom_score_adj: {why}"),
        Step::Users => format!("linux.namespaces: cannot become root in the user namespace: {why}"),
        Step::Time => format!("linux.namespaces: cannot create a time namespace: {why}"),
        Step::Session => format!("cannot create a session and keyring for the process: {why}"),
        Step::CgroupNamespace => format!("linux.namespaces: cannot create a cgroup namespace: {why}"),
        Step::Loopback => format!("cannot bring up the loopback interface lo: {why}"),
        Step::HostPropagation => format!("linux.rootfsPropagation: cannot change the mount propagation of /: {why}"),
        Step::PlaceRoot => format!("root.path: error preparing rootfs: {why}"),
        Step::DevLinks => format!("cannot create the symbolic links in /dev: {why}"),
        Step::Terminal => format!("process.terminal: cannot create a terminal: {why}"),
        Step::ReadOnlyRoot => format!("root.readonly: {why}"),
        Step::Pivot => format!("error jailing process inside rootfs: pivot_root: {why}"),
        Step::RootPropagation => format!("linux.rootfsPropagation: {why}"),
        Step::Hostname => format!("hostname: sethostname: {why}"),
        Step::Domainname => format!("domainname: setdomainname: {why}"),
        Step::Proc => format!("cannot mount a temporary /proc: {why}"),
        Step::Label if fault.index == 0 => format!("process.apparmorProfile: unable to apply apparmor profile: {why}"),
        Step::Label if fault.index == 2 => format!("process.selinuxLabel: unable to label the keyring: {why}"),
        Step::Label => format!("process.selinuxLabel: unable to apply the label: {why}"),
        Step::Scheduler => format!("process.scheduler: sched_setattr: {why}"),
        Step::IoPriority => format!("process.ioPriority: ioprio_set: {why}"),
        Step::MemoryPolicy => format!("linux.memoryPolicy: set_mempolicy: {why}"),
        Step::Personality => format!("linux.personality: {why}"),
        Step::Affinity => format!("process.execCPUAffinity.final: sched_setaffinity: {why}"),
        Step::Null => format!("error reopening /dev/null inside container: open /dev/null: {why}"),
        Step::Streams => format!("cannot change the owner of the standard streams: {why}"),
        Step::NoNewPrivileges => format!("process.noNewPrivileges: {why}"),
        Step::Bounding => format!("process.capabilities.bounding: {why}"),
        Step::WorkingDirectory => {
            let cwd = process.map_or("", |process| &process.cwd);
            format!("process.cwd: chdir to cwd ({cwd:?}) set in config.json failed: {why}")
        }
        Step::WorkingDirectoryOutside => {
            "process.cwd: current working directory is outside of container mount namespace root -- possible container breakout detected".to_owned()
        }
        Step::Groups => format!("process.user: cannot switch to the user: {why}"),
        Step::Capabilities => format!("process.capabilities: unable to apply caps: {why}"),
        Step::Ambient => format!("process.capabilities.ambient: {why}"),
        Step::Seccomp => format!("linux.seccomp: cannot install the filter: {why}"),
        Step::Program | Step::ProgramMissing if fault.errno == Errno::NOENT && !program.contains('/') => {
            format!("exec: {program:?}: executable file not found in $PATH")
        }
        Step::Program if fault.errno == Errno::NOENT => format!("exec: {program:?}: stat {program}: {why}"),
        Step::Program | Step::ProgramMissing => format!("exec: {program:?}: {why}"),
        Step::Fifo => format!("cannot wait for the start of the container: {why}"),
        Step::Execute => format!("exec {program}: {why}"),
        other => format!("{other:?}: {why}"),
    };
    Error::new(text)
}
