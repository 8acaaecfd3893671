//! The attributes of a process before it executes its program: for a container's first process and for those that join
//! it.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use orlop_oci_types::{Process, Rlimit};
use rustix::process::Resource;
use rustix::thread::{CpuSet, Gid, Uid};

use super::affinity::cpus;
use super::capabilities;
use super::scheduling::{io_priority, memory_policy, personality, scheduler};
use super::text::c_string;
use crate::error::{Error, Result};
use crate::sys::{CapSets, Image, SchedAttr};

/// The search path for a program without a slash if `PATH` is unset.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A process, ready to execute its program.
#[derive(Debug)]
pub(crate) struct ProcessPlan {
    pub(crate) args: Image,
    pub(crate) env: Image,
    /// Possible paths of the program, in order; empty for a process that is never started.
    pub(crate) programs: Vec<CString>,
    /// Whether `HOME` is read from the container's `/etc/passwd`; `env` has room for it.
    pub(crate) finds_home: bool,
    pub(crate) cwd: CString,
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) groups: Vec<Gid>,
    pub(crate) umask: u32,
    pub(crate) caps: CapSets,
    pub(crate) last_cap: u32,
    pub(crate) no_new_privileges: bool,
    pub(crate) rlimits: Vec<(Resource, u64, u64)>,
    /// Whether the limit of open files is set later than the others.
    files_later: bool,
    /// The limit of open files, with its index. It is set after the process has closed descriptors that it no longer
    /// needs.
    pub(crate) files: Option<(u16, u64, u64)>,
    pub(crate) oom_score_adj: Option<CString>,
    pub(crate) scheduler: Option<SchedAttr>,
    pub(crate) io_priority: Option<i32>,
    pub(crate) memory_policy: Option<(i32, Vec<u64>)>,
    pub(crate) personality: Option<u32>,
    /// The content of `attr/exec`: an AppArmor profile, an SELinux label.
    pub(crate) apparmor: Option<CString>,
    pub(crate) selinux: Option<CString>,
    pub(crate) seccomp: Option<orlop_seccomp::Program>,
    pub(crate) keyring: Option<CString>,
    pub(crate) terminal: Option<Terminal>,
    /// Number of inherited descriptors beyond the standard three.
    pub(crate) preserve_fds: u32,
    pub(crate) affinity: Option<CpuSet>,
}

/// A terminal to be created.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// The receiver of the master end.
    pub(crate) socket: OwnedFd,
    pub(crate) rows: u16,
    pub(crate) columns: u16,
    /// Whether newlines are not translated: the output goes to our own terminal, which does that, or to a file.
    pub(crate) plain_lines: bool,
}

/// Keeps the last of duplicate variables, so that every program sees the same value.
fn last_of_each(mut env: Vec<CString>) -> Vec<CString> {
    let name = |entry: &CString| {
        entry
            .as_bytes()
            .split(|byte| *byte == b'=')
            .next()
            .map(<[u8]>::to_vec)
    };
    let mut seen = std::collections::HashSet::new();
    env.reverse();
    env.retain(|entry| seen.insert(name(entry)));
    env.reverse();
    env
}

/// Space for `HOME=` and a path.
const HOME_ROOM: usize = 4096;

impl ProcessPlan {
    /// Converts `process`. Ignored settings are added to `warnings`.
    pub(crate) fn new(process: &Process, warnings: &mut Vec<String>) -> Result<Self> {
        let mut passed_over = Vec::new();
        let last_cap = crate::sys::last_capability();
        let caps = process.capabilities.as_ref();
        let caps = caps.map(|caps| capabilities::sets(caps, last_cap, &mut passed_over));
        if !passed_over.is_empty() {
            warnings.push(format!(
                "ignoring unknown or unavailable capabilities: {passed_over:?}"
            ));
        }
        let mut caps = caps.unwrap_or_default();
        // The kernel allows only ambient capabilities that are in these two sets.
        for name in capabilities::leave_ambient_out(&mut caps) {
            warnings.push(format!(
                "can't raise ambient capability {name}: operation not permitted"
            ));
        }
        let strings = |list: &[String], what: &str| -> Result<Vec<CString>> {
            let one = |(index, text): (usize, &String)| {
                c_string(text.as_str(), &format!("process.{what}[{index}]"))
            };
            list.iter().enumerate().map(one).collect()
        };
        let mut env = last_of_each(strings(&process.env, "env")?);
        let finds_home = !env.iter().any(|entry| {
            let value = entry.as_bytes().strip_prefix(b"HOME=");
            value.is_some_and(|value| !value.is_empty())
        });
        if finds_home {
            env.retain(|entry| !entry.as_bytes().starts_with(b"HOME="));
        }
        let mut env = Image::new(env);
        if finds_home {
            // The process itself finds the value.
            env = env.with_room(HOME_ROOM);
        }
        let program = process.args.first().map_or("", String::as_str);
        Ok(Self {
            args: Image::new(strings(&process.args, "args")?),
            programs: if process.args.is_empty() {
                Vec::new()
            } else {
                programs(program, &process.env)?
            },
            env,
            finds_home,
            cwd: c_string(process.cwd.as_str(), "process.cwd")?,
            uid: Uid::from_raw(process.user.uid),
            gid: Gid::from_raw(process.user.gid),
            groups: process
                .user
                .additional_gids
                .iter()
                .map(|&gid| Gid::from_raw(gid))
                .collect(),
            umask: process.user.umask.unwrap_or(0o022),
            caps,
            last_cap,
            no_new_privileges: process.no_new_privileges,
            rlimits: process
                .rlimits
                .iter()
                .enumerate()
                .map(|(index, limit)| rlimit(index, limit))
                .collect::<Result<_>>()?,
            files_later: false,
            files: None,
            oom_score_adj: process
                .oom_score_adj
                .map(|score| c_string(score.to_string(), "process.oomScoreAdj"))
                .transpose()?,
            scheduler: process.scheduler.as_ref().map(scheduler).transpose()?,
            io_priority: process.io_priority.as_ref().map(io_priority).transpose()?,
            memory_policy: None,
            personality: None,
            apparmor: match process.apparmor_profile.as_str() {
                "" => None,
                profile => Some(c_string(
                    format!("exec {profile}"),
                    "process.apparmorProfile",
                )?),
            },
            selinux: match process.selinux_label.as_str() {
                "" => None,
                label => Some(c_string(label, "process.selinuxLabel")?),
            },
            seccomp: None,
            keyring: None,
            terminal: None,
            preserve_fds: 0,
            affinity: match &process.exec_cpu_affinity {
                Some(affinity) if !affinity.last.is_empty() => Some(
                    cpus(&affinity.last)
                        .map_err(|error| error.within("process.execCPUAffinity.final"))?,
                ),
                _ => None,
            },
        })
    }

    /// Makes the limit of open files the last one set, with `otherwise` as its default.
    pub(crate) fn limit_files_later(&mut self, otherwise: Option<(u64, u64)>) {
        self.files_later = true;
        let mut limits = self.rlimits.iter().enumerate();
        let own = limits.rfind(|(_, (what, ..))| *what == Resource::Nofile);
        self.files = own
            .map(|(index, (_, soft, hard))| (index as u16, *soft, *hard))
            .or(otherwise.map(|(soft, hard)| (0, soft, hard)));
    }

    /// Returns the limits that are set at once, with their indices.
    pub(crate) fn limits_at_once(&self) -> impl Iterator<Item = (usize, (Resource, u64, u64))> {
        let all = self.rlimits.iter().copied().enumerate();
        all.filter(|(_, (what, ..))| !self.files_later || *what != Resource::Nofile)
    }

    /// Adds settings of `linux` that apply to a container's processes.
    pub(crate) fn with_linux(&mut self, linux: &orlop_oci_types::Linux) -> Result<()> {
        self.memory_policy = linux
            .memory_policy
            .as_ref()
            .map(memory_policy)
            .transpose()?;
        self.personality = linux.personality.as_ref().map(personality).transpose()?;
        Ok(())
    }
}

/// Returns the possible paths of a program.
fn programs(program: &str, env: &[String]) -> Result<Vec<CString>> {
    if program.contains('/') {
        return Ok(vec![c_string(program, "process.args[0]")?]);
    }
    let path = env
        .iter()
        .rev()
        .find_map(|entry| entry.strip_prefix("PATH="))
        .unwrap_or(DEFAULT_PATH);
    path.split(':')
        .map(|dir| {
            let dir = if dir.is_empty() { "." } else { dir };
            c_string(format!("{dir}/{program}"), "process.args[0]")
        })
        .collect()
}

fn rlimit(index: usize, limit: &Rlimit) -> Result<(Resource, u64, u64)> {
    let resource = match limit.kind.as_str() {
        "RLIMIT_AS" => Resource::As,
        "RLIMIT_CORE" => Resource::Core,
        "RLIMIT_CPU" => Resource::Cpu,
        "RLIMIT_DATA" => Resource::Data,
        "RLIMIT_FSIZE" => Resource::Fsize,
        "RLIMIT_LOCKS" => Resource::Locks,
        "RLIMIT_MEMLOCK" => Resource::Memlock,
        "RLIMIT_MSGQUEUE" => Resource::Msgqueue,
        "RLIMIT_NICE" => Resource::Nice,
        "RLIMIT_NOFILE" => Resource::Nofile,
        "RLIMIT_NPROC" => Resource::Nproc,
        "RLIMIT_RSS" => Resource::Rss,
        "RLIMIT_RTPRIO" => Resource::Rtprio,
        "RLIMIT_RTTIME" => Resource::Rttime,
        "RLIMIT_SIGPENDING" => Resource::Sigpending,
        "RLIMIT_STACK" => Resource::Stack,
        other => {
            return Err(Error::new(format!(
                "process.rlimits[{index}].type: invalid rlimit type: {other}"
            )));
        }
    };
    if limit.soft > limit.hard {
        return Err(Error::new(format!(
            "process.rlimits[{index}]: soft limit {} is greater than the hard limit {}",
            limit.soft, limit.hard
        )));
    }
    Ok((resource, limit.soft, limit.hard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_where_path_says() {
        let env = ["PATH=/a::/b".to_owned()];
        let found: Vec<_> = programs("x", &env).unwrap();
        assert_eq!(
            found,
            [c"/a/x".to_owned(), c"./x".to_owned(), c"/b/x".to_owned()]
        );
        assert_eq!(programs("./x", &env).unwrap(), [c"./x".to_owned()]);
    }
}
