//! Starts a program without copying this process.
//!
//! A fork copies the page tables of this process, and both sides pay for each page that they touch afterwards. The new
//! process here borrows the memory until it executes another program, and this process waits until then.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::ptr;

use orlop_process::processor::Here;
use rustix::fs::{fstat, stat};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, getppid, set_parent_process_death_signal, setpgid,
    waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::mount::open_read_only;
use super::signal;

/// Many times what the new process needs: it calls nothing outside this file.
const STACK: usize = 64 << 10;

/// A program to be started, with everything its process needs prepared.
#[derive(Debug)]
pub(crate) struct Program {
    path: CString,
    /// Its file on a private mount, executed if possible.
    protected: Option<OwnedFd>,
    /// Whether the new process creates that mount.
    protects_late: bool,
    args: Words,
    env: Words,
    cwd: Option<CString>,
}

/// A program's file held through a private mount.
#[derive(Debug)]
pub(crate) struct Protected {
    pub(crate) path: PathBuf,
    pub(crate) file: OwnedFd,
}

impl Protected {
    /// Returns the file, if it is the one at this path.
    fn file_of(&self, path: &CStr) -> Option<OwnedFd> {
        if path.to_bytes() != self.path.as_os_str().as_bytes() {
            return None;
        }
        let (there, own) = (stat(path).ok()?, fstat(&self.file).ok()?);
        let is_same = (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino);
        is_same.then(|| self.file.try_clone().ok()).flatten()
    }
}

/// An array of strings as the kernel expects it: addresses and a terminating null.
#[derive(Debug)]
struct Words {
    addresses: Vec<*const libc::c_char>,
    /// The strings at the addresses.
    _texts: Vec<CString>,
}

impl Program {
    /// Creates a program from a command line, whose first word is a path or a name to search for.
    pub(crate) fn new(args: Vec<OsString>, env: &[OsString]) -> io::Result<Self> {
        let name = args.first().map_or(OsStr::new(""), OsString::as_os_str);
        Ok(Self {
            path: look_for(name, env)?,
            protected: None,
            protects_late: false,
            args: Words::new(args)?,
            env: Words::new(env.to_vec())?,
            cwd: None,
        })
    }

    /// Executes the program through a read-only mount, so that it need not protect itself: a container that gets hold
    /// of the program of a process must not change it. If this fails, the program has to protect itself. `known` is a
    /// program that is held already. If `late`, the new process creates the mount once it is prepared.
    pub(crate) fn protect(&mut self, known: Option<&Protected>, late: bool) {
        let known = known.and_then(|known| known.file_of(&self.path));
        self.protects_late = late && known.is_none();
        self.protected = match known {
            None if !late => open_read_only(&self.path).ok(),
            known => known,
        };
    }

    /// Returns the mount through which it is executed, not needed after that.
    pub(crate) fn protection(self) -> Option<OwnedFd> {
        self.protected
    }

    /// Sets the directory to start in.
    pub(crate) fn current_dir(&mut self, dir: &OsStr) -> io::Result<()> {
        self.cwd = Some(text(dir.to_owned())?);
        Ok(())
    }

    /// Starts it in its own process group, with these standard streams, and kills it when this thread ends. The new
    /// process calls `prepare` before it executes the program.
    ///
    /// # Safety
    ///
    /// `prepare` makes system calls only: the memory is this process's, and another thread may hold
    /// the allocator's lock.
    pub(crate) unsafe fn start(
        &self,
        streams: &[OwnedFd; 3],
        prepare: &dyn Fn() -> rustix::io::Result<()>,
    ) -> io::Result<Pid> {
        if streams.iter().any(|stream| stream.as_raw_fd() < 3) {
            return Err(io::Error::other(
                "a standard stream has the descriptor number of another stream",
            ));
        }
        let stack = Stack::new()?;
        // A program that protects itself also chooses the processor of its containers. From another processor they
        // might start before it is released, and stay bound to it forever.
        let protects_itself = self.protected.is_none() && !self.protects_late;
        let here = if protects_itself { None } else { Here::stay() };
        let start = Start {
            program: self,
            streams,
            prepare,
            parent: getpid(),
            here: here.as_ref(),
            failed: Cell::new(None),
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack is the new process's alone, and lives until the call returns, as `start`
        // does: that is when the process has become another program or ended. It touches nothing of
        // this process's but `failed`, which no other code reads meanwhile.
        let made = unsafe {
            let start = (&raw const start).cast_mut().cast();
            libc::clone(become_program, stack.top(), flags, start)
        };
        let pid = Pid::from_raw(made).filter(|_| made > 0);
        let pid = pid.ok_or_else(io::Error::last_os_error)?;
        if let Some(here) = &here {
            here.release(pid);
        }
        match start.failed.get() {
            None => Ok(pid),
            Some(error) => {
                // The failed process is reaped here, so that no other code sees it.
                while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
                Err(error.into())
            }
        }
    }
}

/// Data passed to the new process.
struct Start<'a> {
    program: &'a Program,
    streams: &'a [OwnedFd; 3],
    prepare: &'a dyn Fn() -> rustix::io::Result<()>,
    parent: Pid,
    here: Option<&'a Here>,
    /// Why it could not be executed.
    failed: Cell<Option<Errno>>,
}

/// Runs in the new process: makes system calls only.
extern "C" fn become_program(start: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `Program::start` passes this, and waits.
    let start = unsafe { &*start.cast::<Start<'_>>() };
    let Err(error) = start.carry_out();
    start.failed.set(Some(error));
    // The C library calls `_exit` next.
    127
}

impl Start<'_> {
    fn carry_out(&self) -> Result<std::convert::Infallible, Errno> {
        let [stdin, stdout, stderr] = self.streams;
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        if let Some(cwd) = &self.program.cwd {
            chdir(cwd.as_c_str())?;
        }
        setpgid(None, None)?;
        signal::reset_pipe();
        // The runtime's start of a dead container would wait forever, and no other process would end it. It would also
        // keep the pod's namespaces.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(self.parent) {
            // The parent ended before the death signal was set.
            return Err(Errno::SRCH);
        }
        (self.prepare)()?;
        // The waiting thread wakes up on another processor and leaves this one to the new program.
        if let Some(here) = self.here {
            here.release(self.parent);
        }
        Err(self.program.execute())
    }
}

impl Program {
    fn execute(&self) -> Errno {
        let (args, env) = (self.args.addresses.as_ptr(), self.env.addresses.as_ptr());
        let late = if self.protects_late {
            open_read_only(&self.path).ok()
        } else {
            None
        };
        if let Some(file) = self.protected.as_ref().or(late.as_ref()) {
            let (file, name, by_itself) = (file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH);
            // SAFETY: both arrays end with a null, and what they point to lives as long as they. This
            // returns only if it fails, as for a script, whose interpreter would find the file closed.
            unsafe { libc::syscall(libc::SYS_execveat, file, name, args, env, by_itself) };
        }
        // SAFETY: likewise.
        unsafe { libc::execve(self.path.as_ptr(), args, env) };
        // It has failed. The errno is that of the thread that waits.
        // SAFETY: every thread has one.
        Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
    }
}

impl Words {
    fn new(words: Vec<OsString>) -> io::Result<Self> {
        let texts: Vec<CString> = words.into_iter().map(text).collect::<io::Result<_>>()?;
        let addresses = texts.iter().map(|text| text.as_ptr());
        Ok(Self {
            addresses: addresses.chain([ptr::null()]).collect(),
            _texts: texts,
        })
    }
}

/// A stack for a process that shares all other memory.
struct Stack(*mut libc::c_void);

impl Stack {
    fn new() -> io::Result<Self> {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
        );
        // SAFETY: new memory, at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), STACK, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(start))
    }

    /// Returns the end of the mapping, where the stack begins: it grows downwards.
    fn top(&self) -> *mut libc::c_void {
        self.0.wrapping_byte_add(STACK)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no process uses it any more.
        unsafe { libc::munmap(self.0, STACK) };
    }
}

fn text(word: OsString) -> io::Result<CString> {
    CString::new(word.into_vec()).map_err(io::Error::other)
}

/// Returns the path of a program: the name if it is a path, else the first executable file of that name in the `PATH`
/// of its environment.
fn look_for(name: &OsStr, env: &[OsString]) -> io::Result<CString> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&b'/') {
        return text(name.to_owned());
    }
    let path = env
        .iter()
        .find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    for dir in path.unwrap_or_default().split(|&byte| byte == b':') {
        let candidate = text(OsString::from_vec([dir, b"/", bytes].concat()))?;
        let access = rustix::fs::Access::EXEC_OK;
        if rustix::fs::access(candidate.as_c_str(), access).is_ok() {
            return Ok(candidate);
        }
    }
    Err(Errno::NOENT.into())
}
