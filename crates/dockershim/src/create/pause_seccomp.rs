//! The seccomp profile of the built-in pause process.
//!
//! The engine's default profile allows hundreds of system calls for three architectures. A runtime compiles all of it
//! for each process, which takes 50 to 70 ms. The pause process only waits and reaps. The profile also allows what
//! runtimes call between loading it and executing the process; names that an architecture does not have are ignored.

use serde_json::json;

use crate::docker::types::Info;

/// Calls for files and memory, threads and signals, identity: nothing that affects other processes.
const ALLOWED: &str = "access arch_prctl brk capget capset chdir clock_getres clock_gettime \
    clock_nanosleep clone clone3 close close_range dup dup2 dup3 epoll_create epoll_create1 \
    epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd2 execve execveat exit exit_group \
    faccessat faccessat2 fchdir fcntl fcntl64 fstat fstat64 fstatfs fstatfs64 futex futex_time64 \
    getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups \
    getitimer getpgid getpgrp getpid getppid getrandom getrlimit getrusage getsid gettid \
    gettimeofday getuid getuid32 ioctl kill lseek lstat madvise membarrier mincore mmap mmap2 \
    mprotect mremap munmap nanosleep newfstatat open openat openat2 pause pipe pipe2 poll ppoll \
    ppoll_time64 prctl pread64 prlimit64 pselect6 pwrite64 read readlink readlinkat readv recvfrom \
    recvmsg restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn \
    rt_sigsuspend rt_sigtimedwait sched_getaffinity sched_yield select sendmsg sendto \
    set_robust_list set_tid_address setgid setgid32 setgroups setgroups32 setitimer setpgid \
    setregid setresgid setresgid32 setresuid setresuid32 setreuid setsid setuid setuid32 \
    sigaltstack sigreturn stat stat64 statfs statx sysinfo tgkill timer_create timer_delete \
    timer_settime tkill ugetrlimit umask uname wait4 waitid waitpid write writev";

/// Returns the engine's seccomp option, if the engine supports seccomp.
pub(super) fn option(info: &Info) -> Option<String> {
    let known = info
        .security_options
        .iter()
        .any(|option| option.starts_with("name=seccomp"));
    known.then(|| {
        let names: Vec<&str> = ALLOWED.split_whitespace().collect();
        let profile = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [{ "names": names, "action": "SCMP_ACT_ALLOW" }],
        });
        format!("seccomp={profile}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_engine_that_knows_seccomp_gets_a_profile() {
        let mut info = Info::default();
        assert_eq!(option(&info), None);
        info.security_options
            .push("name=seccomp,profile=builtin".into());
        let text = option(&info).unwrap();
        let profile = text.strip_prefix("seccomp=").unwrap();
        let profile: serde_json::Value = serde_json::from_str(profile).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        let names = profile["syscalls"][0]["names"].as_array().unwrap();
        for needed in ["execve", "pause", "wait4", "rt_sigaction", "exit"] {
            assert!(names.iter().any(|name| name == needed), "{needed}");
        }
        for dangerous in [
            "ptrace", "mount", "bpf", "unshare", "setns", "socket", "keyctl",
        ] {
            assert!(!names.iter().any(|name| name == dangerous), "{dangerous}");
        }
    }
}
