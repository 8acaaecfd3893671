//! Which system calls are made to fail, and how.

/// Calls that are left alone, each with the reason.
const SPARED: &[(&str, &[&str])] = &[
    (
        "the standard library or tokio ends the program, or the kernel never refuses",
        &[
            "futex",
            "mmap",
            "munmap",
            "mprotect",
            "mremap",
            "madvise",
            "brk",
            "rt_sigaction",
            "rt_sigprocmask",
            "rt_sigreturn",
            "sigaltstack",
            "set_robust_list",
            "rseq",
            "sched_yield",
            "sched_getaffinity",
            "getrandom",
            "gettid",
            "getpid",
            "getppid",
            "getuid",
            "geteuid",
            "getgid",
            "getegid",
            "umask",
            "uname",
            "lseek",
            "exit",
            "exit_group",
            "set_tid_address",
            "arch_prctl",
            "prctl",
            "prlimit64",
        ],
    ),
    (
        "a wait ends by a signal, not by an error",
        &[
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "nanosleep",
            "clock_nanosleep",
            "restart_syscall",
            "wait4",
            "waitid",
        ],
    ),
    (
        "what strace keeps from being closed stays open, which no kernel does",
        &["close", "close_range"],
    ),
    (
        "the child is let go of there; that it fails is a fault of its own",
        &["execve", "execveat"],
    ),
];

/// Whether a call is made to fail at all.
pub(super) fn is_spared(call: &str) -> bool {
    SPARED.iter().any(|(_, calls)| calls.contains(&call))
}

/// The errors that befall a call on a machine in trouble.
pub(super) fn errors_of(call: &str) -> &'static [&'static str] {
    match call {
        "clone" | "clone3" | "fork" | "vfork" => &["EAGAIN", "ENOMEM"],
        "execve" => &["ENOENT", "ENOMEM", "EACCES", "ETXTBSY"],
        "open" | "openat" | "openat2" => &["EMFILE", "EIO", "ENOSPC"],
        "socket" | "socketpair" | "pipe" | "pipe2" | "dup" | "dup2" | "dup3" | "fcntl"
        | "accept4" | "eventfd2" | "epoll_create1" | "memfd_create" | "pidfd_open"
        | "timerfd_create" | "inotify_init1" | "fsopen" | "fsmount" | "fspick" | "open_tree" => {
            &["EMFILE", "ENOMEM"]
        }
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "fsync" | "fdatasync"
        | "syncfs" | "mkdir" | "mkdirat" | "mknod" | "mknodat" | "rename" | "renameat"
        | "renameat2" | "link" | "linkat" | "symlink" | "symlinkat" | "truncate" | "ftruncate"
        | "fallocate" | "copy_file_range" | "sendfile" | "splice" | "setxattr" | "lsetxattr"
        | "fsetxattr" => &["ENOSPC", "EIO"],
        _ => &["EIO", "ENOMEM"],
    }
}
