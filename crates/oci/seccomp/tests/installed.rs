//! Programs that the kernel has: what a process meets that is filtered by one.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(
    unsafe_code,
    reason = "filters stay, so that they are tried in children"
)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use orlop_seccomp::Program;

const EPERM: i32 = 1;

/// `SECCOMP_IOCTL_NOTIF_RECV` and `_SEND` (`linux/seccomp.h`).
const RECEIVE: libc::Ioctl = 0xc050_2100;
const SEND: libc::Ioctl = 0xc018_2101;

fn compile(text: &str) -> Program {
    Program::compile(&serde_json::from_str(text).unwrap()).unwrap()
}

/// One rule on `getppid`, which nothing here needs.
fn on_getppid(action: &str) -> Program {
    compile(&format!(
        r#"{{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{{"names":["getppid"],"action":"{action}"}}]}}"#
    ))
}

#[test]
fn what_is_not_named_is_allowed_or_fails_by_the_default() {
    let only = r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":95,
        "syscalls":[{"names":["exit_group","getpid"],"action":"SCMP_ACT_ALLOW"}]}"#;
    let end = filtered(&compile(only), |_| {
        i32::from(call(libc::SYS_getpid, [0; 3]) > 0)
            + 2 * i32::from(call(libc::SYS_getuid, [0; 3]) == -95)
    });
    assert_eq!(end, End::Exited(3));
}

#[test]
fn calls_of_the_future_are_unknown_and_not_forbidden() {
    let only = r#"{"defaultAction":"SCMP_ACT_ERRNO",
        "syscalls":[{"names":["exit_group","getpid"],"action":"SCMP_ACT_ALLOW"}]}"#;
    let end = filtered(&compile(only), |_| -call(5000, [0; 3]) as i32);
    assert_eq!(end, End::Exited(libc::ENOSYS));
    // exit_group's number is not past its own.
    let end = filtered(&compile(only), |_| -call(libc::SYS_getuid, [0; 3]) as i32);
    assert_eq!(end, End::Exited(EPERM));
}

#[test]
fn arguments_decide_by_all_their_bits() {
    let above = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["getpriority"],
        "action":"SCMP_ACT_ERRNO","errnoRet":7,
        "args":[{"index":1,"value":4294967297,"op":"SCMP_CMP_GT"},
                {"index":2,"value":240,"valueTwo":80,"op":"SCMP_CMP_MASKED_EQ"}]}]}"#;
    let program = compile(above);
    let denied = |second: i64, third: i64| {
        let end = filtered(&program, |_| {
            i32::from(call(libc::SYS_getpriority, [99, second, third]) == -7)
        });
        end == End::Exited(1)
    };
    assert!(denied(0x1_0000_0002, 0x50));
    assert!(denied(-1, 0xf5f | 0x1_0000_0000));
    assert!(!denied(0x1_0000_0001, 0x50), "it is not greater");
    assert!(!denied(2, 0x50), "only the lower half is");
    assert!(!denied(-1, 0x60), "the other condition does not hold");
}

#[test]
fn threads_and_processes_are_killed_or_trapped() {
    for (action, signal) in [
        ("SCMP_ACT_KILL", libc::SIGSYS),
        ("SCMP_ACT_KILL_THREAD", libc::SIGSYS),
        ("SCMP_ACT_KILL_PROCESS", libc::SIGSYS),
        ("SCMP_ACT_TRAP", libc::SIGSYS),
    ] {
        let end = filtered(&on_getppid(action), |_| {
            call(libc::SYS_getppid, [0; 3]);
            0
        });
        assert_eq!(end, End::Killed(signal), "{action}");
    }
}

#[test]
fn what_is_logged_or_allowed_goes_on() {
    for action in ["SCMP_ACT_LOG", "SCMP_ACT_ALLOW"] {
        let end = filtered(&on_getppid(action), |_| {
            i32::from(call(libc::SYS_getppid, [0; 3]) > 0)
        });
        assert_eq!(end, End::Exited(1), "{action}");
    }
}

/// Without a tracer there is no such call.
#[test]
fn a_tracer_that_is_missing_leaves_the_call_unknown() {
    let end = filtered(&on_getppid("SCMP_ACT_TRACE"), |_| {
        -call(libc::SYS_getppid, [0; 3]) as i32
    });
    assert_eq!(end, End::Exited(libc::ENOSYS));
}

#[test]
fn an_agent_answers_what_it_is_asked() {
    let program = on_getppid("SCMP_ACT_NOTIFY");
    assert!(program.has_listener());
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let child = fork(|| {
        no_new_privileges();
        let Ok(Some(listener)) = program.install() else {
            return 100;
        };
        let number = listener.as_raw_fd().to_ne_bytes();
        if rustix::io::write(&theirs, &number) != Ok(4) {
            return 101;
        }
        call(libc::SYS_getppid, [0; 3]) as i32
    });
    drop(theirs);
    let mut number = [0; 4];
    rustix::io::read(&ours, &mut number).unwrap();
    let listener = taken(child, RawFd::from_ne_bytes(number));

    // SAFETY: both are plain numbers, for which zeros are a value, and the kernel writes them.
    let asked = unsafe {
        let mut asked: libc::seccomp_notif = std::mem::zeroed();
        assert_eq!(
            libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut asked),
            0
        );
        asked
    };
    assert_eq!(i64::from(asked.data.nr), libc::SYS_getppid);
    let mut answer = libc::seccomp_notif_resp {
        id: asked.id,
        val: 77,
        error: 0,
        flags: 0,
    };
    // SAFETY: the kernel reads the answer, which is a local variable.
    let sent = unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
    assert_eq!(sent, 0);
    assert_eq!(wait(child), End::Exited(77));
}

#[test]
fn a_program_that_was_kept_filters_as_before() {
    let bytes = on_getppid("SCMP_ACT_ERRNO").to_bytes();
    let program = Program::from_bytes(&bytes).unwrap();
    let end = filtered(&program, |_| -call(libc::SYS_getppid, [0; 3]) as i32);
    assert_eq!(end, End::Exited(EPERM));
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Exited(i32),
    Killed(i32),
}

/// The end of a child that is filtered before it does this; 100 if it cannot be.
fn filtered(program: &Program, then: impl FnOnce(&Program) -> i32) -> End {
    wait(fork(|| {
        no_new_privileges();
        match program.install() {
            Ok(None) => then(program),
            _ => 100,
        }
    }))
}

fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls the kernel only, and ends without unwinding or destructors.
    unsafe {
        match libc::fork() {
            0 => {
                let code = child();
                libc::syscall(libc::SYS_exit_group, code);
                libc::_exit(code)
            }
            pid => pid,
        }
    }
}

fn wait(pid: i32) -> End {
    let mut status = 0;
    // SAFETY: the status is a local variable, and the child one of ours.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) {
        return End::Killed(libc::WTERMSIG(status));
    }
    End::Exited(libc::WEXITSTATUS(status))
}

/// So that the tests need no rights.
fn no_new_privileges() {
    // SAFETY: it takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
}

/// A call's result as the kernel gives it.
fn call(number: libc::c_long, args: [i64; 3]) -> i64 {
    // SAFETY: the calls that are tried take numbers only.
    let result = unsafe { libc::syscall(number, args[0], args[1], args[2]) };
    if result >= 0 {
        return result;
    }
    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// A descriptor of a child.
fn taken(pid: i32, number: RawFd) -> OwnedFd {
    // SAFETY: these take numbers only; what is returned is new.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(process >= 0);
        let process = OwnedFd::from_raw_fd(process as RawFd);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
        assert!(taken >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(taken as RawFd)
    }
}
