//! The child of the clone: carries out a plan with system calls only. It allocates nothing and takes no lock
//! ([`crate::heap`] enforces that); it reports failures by number.

mod finish;
mod fresh;
pub(crate) mod hooks;
mod join;
mod last_words;
mod passwd;
mod root;
mod start;
mod terminal;
mod walk;

use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal, umask};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

pub(crate) use join::{Joining, run as run_joining};
pub(crate) use walk::{Make, find};

use self::start::Start;
use crate::heap;
use crate::null;
use crate::plan::{NEW_TIME, Plan, Sysctl};
use crate::protect::may_be_looked_into;
use crate::report::{At, Channel, Fault, Step, Word};
use crate::sys::{
    CloneArgs, Side, bring_up_loopback, clone, end_when_asked, enter_namespaces, exit_now,
    set_domain_name, set_host_name, unshare_cgroup, unshare_ipc, unshare_time,
};

/// Exit code of a child that failed before it executed a program, after it reported why.
const FAILED: i32 = 1;

/// Carries out a plan. The inherited memory of the caller belongs to the child.
pub(crate) fn run(plan: &mut Plan, channel: &Channel) -> ! {
    heap::refuse();
    let Err(fault) = live(plan, channel);
    last_words::whoever_reads(&plan.process, fault);
    fail(fault, channel)
}

fn fail(fault: Fault, channel: &Channel) -> ! {
    let _ = channel.tell(&Word::Failed(fault));
    exit_now(FAILED)
}

/// Enters existing namespaces in an intermediate process, which then creates the container's process. A process that
/// has left the host's user namespace can do nothing more for it.
pub(crate) fn run_between(plan: &mut Plan, channel: &Channel, cgroup: Option<&OwnedFd>) -> ! {
    heap::refuse();
    let made = between(plan, channel, cgroup);
    match made {
        Ok(()) => exit_now(0),
        Err(fault) => fail(fault, channel),
    }
}

fn between(plan: &mut Plan, channel: &Channel, cgroup: Option<&OwnedFd>) -> Result<(), Fault> {
    die_with_parent().at(Step::Parent)?;
    enter_cgroups(&plan.tasks)?;
    finish::limits(&plan.process)?;
    // With the privileges of the host first: a namespace may belong to another user namespace than the joined one.
    plan.namespaces
        .join
        .retain(|join| enter_namespaces(join.file.as_fd(), join.kind).is_err());
    if let Some(users) = &plan.namespaces.user {
        enter_namespaces(users.as_fd(), libc::CLONE_NEWUSER as u64).at(Step::Users)?;
    }
    join(plan)?;
    let args = CloneArgs {
        namespaces: plan.namespaces.by_clone(),
        cgroup: cgroup.map(AsFd::as_fd),
        sibling: true,
        here: false,
    };
    match clone(&args).at(Step::Intermediate)? {
        Side::Parent(process) => channel.tell(&Word::Made(process.pid)).at(Step::Parent),
        Side::Child => {
            // The intermediate process has done these.
            plan.tasks.clear();
            plan.process.rlimits.clear();
            plan.process.oom_score_adj = None;
            plan.namespaces.join.clear();
            let Err(fault) = live(plan, channel);
            last_words::whoever_reads(&plan.process, fault);
            fail(fault, channel)
        }
    }
}

fn live(plan: &mut Plan, channel: &Channel) -> Result<Infallible, Fault> {
    die_with_parent().at(Step::Parent)?;
    if plan.waits {
        channel.wait().at(Step::Parent)?;
    }
    channel.did(Step::Parent, 0);
    if plan.opens_up {
        may_be_looked_into(false).at(Step::Users)?;
    }
    enter_cgroups(&plan.tasks)?;
    if !plan.tasks.is_empty() {
        channel.did(Step::Cgroup, 0);
    }
    let makes_users = plan.namespaces.new & libc::CLONE_NEWUSER as u64 != 0;
    if !makes_users {
        // Otherwise the parent has set them: no process in the user namespace may raise them.
        finish::limits(&plan.process)?;
    }
    finish::label_of_keys(&plan.process)?;
    if plan.namespaces.has_users() {
        become_root()?;
        channel.did(Step::Users, 0);
        die_with_parent().at(Step::Parent)?;
        if plan.namespaces.new != plan.namespaces.by_clone() {
            unshare_ipc().at(Step::Users)?;
        }
        if let Some(offsets) = &plan.namespaces.new_time {
            make_time(!offsets.is_empty(), plan.opens_up, channel).at(Step::Time)?;
        }
    }
    join(plan)?;
    for join in &plan.namespaces.join {
        channel.did(Step::Join, join.index);
    }
    if plan.namespaces.new_cgroup {
        unshare_cgroup().at(Step::CgroupNamespace)?;
        channel.did(Step::CgroupNamespace, 0);
    }
    finish::session(&plan.process, Some(plan.namespaces.has_users()))?;
    channel.did(Step::Session, 0);
    if plan.namespaces.new & libc::CLONE_NEWNET as u64 != 0 {
        bring_up_loopback().at(Step::Loopback)?;
        channel.did(Step::Loopback, 0);
    }
    let mut proc = None;
    // Files of the root file system get their exact modes, whatever the caller's umask is.
    let usual = umask(Mode::empty());
    if let Some(root) = &mut plan.root {
        proc = root::fill(root, channel)?;
    }
    if plan.meets {
        channel
            .tell(&Word::Namespaced)
            .and_then(|()| channel.wait())
            .at(Step::Parent)?;
    }
    if let Some(root) = plan
        .root
        .as_ref()
        .filter(|_| !plan.create_hooks.steps.is_empty())
    {
        rustix::process::fchdir(&root.tree).at(Step::CreateHook)?;
    }
    umask(usual);
    hooks::run(&plan.create_hooks, &plan.process.env, Step::CreateHook)?;
    umask(Mode::empty());
    if !plan.create_hooks.steps.is_empty() {
        channel.did(Step::CreateHook, plan.create_hooks.steps.len() as u16);
    }
    let process = &plan.process;
    let needs_proc =
        !plan.sysctls.is_empty() || process.apparmor.is_some() || process.selinux.is_some();
    let proc = finish::proc_for(needs_proc, proc)?;
    let start = plan.state_dir.take();
    let start = start.map(|dir| Start::prepare(dir, proc.as_ref()));
    let start = start.transpose()?;
    let mut console = None;
    if let Some(root) = &mut plan.root {
        if let Some(terminal) = &process.terminal {
            console = Some(terminal::open(terminal, root.tree.as_fd(), true).at(Step::Terminal)?);
            channel.did(Step::Terminal, 0);
        }
        // Before the files become read-only.
        write_sysctls(&plan.sysctls, proc.as_ref(), channel)?;
        root::make_directory(root, &process.cwd);
        root::close(root)?;
        channel.did(Step::Mask, 0);
        // A bind-mounted `/dev` may have no null device.
        let needs_null = root.devices.is_some();
        let lent = if needs_null { None } else { null::lend() };
        root::enter(root)?;
        channel.did(Step::Pivot, 0);
        match null::open_again(lent.as_ref()) {
            Err(_) if !needs_null => {}
            opened => opened.at(Step::Null)?,
        }
    } else if let Some(terminal) = &process.terminal {
        console = Some(own_terminal(terminal)?);
    }
    if let Some(root) = &plan.bare_root {
        write_sysctls(&plan.sysctls, proc.as_ref(), channel)?;
        rustix::process::fchdir(root)
            .and_then(|()| rustix::process::chroot(c"."))
            .and_then(|()| rustix::process::chdir(c"/"))
            .at(Step::Pivot)?;
    }
    if let Some(console) = console {
        terminal::take(console).at(Step::Terminal)?;
    }
    if let Some(name) = &plan.hostname {
        set_host_name(name).at(Step::Hostname)?;
        channel.did(Step::Hostname, 0);
    }
    if let Some(name) = &plan.domainname {
        set_domain_name(name).at(Step::Domainname)?;
        channel.did(Step::Domainname, 0);
    }
    if let Some(proc) = &proc {
        finish::labels(&plan.process, proc.as_fd())?;
    }
    drop(proc);
    finish::scheduling(&plan.process)?;
    let [fifo, fds] = start.as_ref().map_or([None, None], Start::descriptors);
    let kept = [
        fifo,
        fds,
        plan.start_hooks.state.as_ref().map(AsFd::as_fd),
        plan.start_hooks.output.as_ref().map(AsFd::as_fd),
    ];
    finish::close_the_rest(&plan.process, channel, kept)?;
    let program = finish::become_user(&mut plan.process, channel)?;
    channel.did(Step::Groups, 0);
    // From here on the closed channel, on which the child waits, reports the parent's exit. The parent records the
    // child before anyone can start it.
    set_parent_process_death_signal(None).at(Step::Parent)?;
    end_when_asked();
    channel
        .tell(&Word::Ready)
        .and_then(|()| channel.wait())
        .at(Step::Parent)?;
    start.map_or(Ok(()), Start::wait)?;
    hooks::run(&plan.start_hooks, &plan.process.env, Step::StartHook)?;
    finish::become_program(&plan.process, program, channel)
}

/// Creates a time namespace and enters it: otherwise only children would be in it.
fn make_time(has_offsets: bool, opens_up: bool, channel: &Channel) -> rustix::io::Result<()> {
    unshare_time()?;
    if has_offsets {
        if opens_up {
            may_be_looked_into(true)?;
        }
        channel.tell(&Word::Timed).and_then(|()| channel.wait())?;
        if opens_up {
            may_be_looked_into(false)?;
        }
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let made = openat(
        CWD,
        c"/proc/self/ns/time_for_children",
        flags,
        Mode::empty(),
    )?;
    enter_namespaces(made.as_fd(), NEW_TIME)
}

fn write_sysctls(
    sysctls: &[Sysctl],
    proc: Option<&OwnedFd>,
    channel: &Channel,
) -> Result<(), Fault> {
    let Some(proc) = proc else {
        return Ok(());
    };
    for (index, sysctl) in sysctls.iter().enumerate() {
        finish::write_proc(proc.as_fd(), &sysctl.file, &sysctl.value)
            .at_index(Step::Sysctl, index as u16)?;
        channel.did(Step::Sysctl, index as u16);
    }
    Ok(())
}

fn own_terminal(terminal: &crate::plan::Terminal) -> Result<OwnedFd, Fault> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, c"/", flags, Mode::empty()).at(Step::Terminal)?;
    terminal::open(terminal, root.as_fd(), false).at(Step::Terminal)
}

/// Kills this process when its parent exits: until it reports that it is ready, only its parent knows about it.
fn die_with_parent() -> rustix::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
}

fn enter_cgroups(tasks: &[OwnedFd]) -> Result<(), Fault> {
    for (index, tasks) in tasks.iter().enumerate() {
        rustix::io::write(tasks, b"0").at_index(Step::Cgroup, index as u16)?;
    }
    Ok(())
}

fn join(plan: &Plan) -> Result<(), Fault> {
    for join in &plan.namespaces.join {
        // Only children are in another PID namespace: the parent has entered it for them.
        if join.kind != libc::CLONE_NEWPID as u64 || plan.namespaces.user.is_some() {
            enter_namespaces(join.file.as_fd(), join.kind).at_index(Step::Join, join.index)?;
        }
    }
    Ok(())
}

fn become_root() -> Result<(), Fault> {
    match set_thread_groups(&[]) {
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno).at(Step::Users),
    }
    let (uid, gid) = (Uid::ROOT, Gid::ROOT);
    set_thread_res_gid(gid, gid, gid).at(Step::Users)?;
    set_thread_res_uid(uid, uid, uid).at(Step::Users)
}
