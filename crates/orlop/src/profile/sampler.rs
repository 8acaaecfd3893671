//! The SIGPROF handler and its timer.
//!
//! The handler makes three system calls and touches nothing that the interrupted code may have locked. It reads the
//! stack through `/proc/self/mem`, where a wrong address is an error and no fault, and writes the sample into a pipe.
//! Neither the timer nor the handler exists outside a recording. Child processes have no such timer, and `execve`
//! resets handlers, so programs that the daemon starts are not affected.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::stacks::Stacks;

/// Samples per second of processor time. Every kernel supports it: the slowest have 100 ticks a second.
const FREQUENCY: u64 = 99;
/// Maximum functions of a sample: a pipe write of up to 4096 bytes is atomic.
const DEPTH: usize = 128;
/// Words in a record before its functions: the number of functions and the thread.
const HEAD: usize = 2;
const WORD: usize = size_of::<u64>();
/// Buffer between two reads: 0.1 s of some hundred processors.
const PIPE_SIZE: usize = 1 << 20;

static AT_WORK: AtomicBool = AtomicBool::new(false);
static PIPE: AtomicI32 = AtomicI32::new(-1);
static MEMORY: AtomicI32 = AtomicI32::new(-1);
/// Number of running handlers.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);

/// A recording. Dropping it stops the timer and removes the handler.
pub(super) struct Sampler {
    samples: OwnedFd,
    /// Start of a record whose end is still in the pipe.
    rest: Vec<u8>,
    is_running: bool,
    lost: u64,
    before: libc::sigaction,
    // File descriptors of the handler, closed when no handler runs.
    _pipe: OwnedFd,
    _memory: File,
}

impl Sampler {
    /// Starts a recording, or returns `None` if one is running.
    pub(super) fn start() -> io::Result<Option<Self>> {
        let memory = File::open("/proc/self/mem")?;
        let (samples, pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = fcntl_setpipe_size(&pipe, PIPE_SIZE);
        if AT_WORK.swap(true, SeqCst) {
            return Ok(None);
        }
        LOST.store(0, SeqCst);
        MEMORY.store(memory.as_raw_fd(), SeqCst);
        PIPE.store(pipe.as_raw_fd(), SeqCst);
        let mut sampler = Self {
            samples,
            rest: Vec::new(),
            is_running: true,
            lost: 0,
            before: install()?,
            _pipe: pipe,
            _memory: memory,
        };
        if let Err(error) = set_timer(Self::period()) {
            sampler.stop();
            return Err(error);
        }
        Ok(Some(sampler))
    }

    /// Processor time between two samples.
    pub(super) fn period() -> Duration {
        Duration::from_micros(1_000_000 / FREQUENCY)
    }

    /// Reads the available samples.
    pub(super) fn drain(&mut self, into: &mut Stacks) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = rustix::io::read(&self.samples, &mut bytes) {
            self.rest.extend_from_slice(&bytes[..count]);
            let (words, _) = self.rest.as_chunks::<WORD>();
            let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
            let mut done = 0;
            while let (Some(length), Some(thread)) = (words.next(), words.next()) {
                let length = length as usize;
                if words.len() < length {
                    break;
                }
                into.add(thread as u32, words.by_ref().take(length).collect());
                done += (HEAD + length) * WORD;
            }
            self.rest.drain(..done);
        }
    }

    /// Ends the recording; samples in the pipe can still be read.
    pub(super) fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_running, false) {
            return;
        }
        let _ = set_timer(Duration::ZERO);
        PIPE.store(-1, SeqCst);
        while HANDLERS.load(SeqCst) > 0 {
            thread::sleep(Duration::from_micros(100));
        }
        // A pending signal would end the process if there were no handler.
        if (0..1000).any(|_| is_delivered()) {
            // SAFETY: the kernel returned this action for this signal.
            unsafe { libc::sigaction(libc::SIGPROF, &raw const self.before, std::ptr::null_mut()) };
        }
        self.lost = LOST.load(SeqCst);
        AT_WORK.store(false, SeqCst);
    }

    /// Returns the number of samples lost to a full pipe, once the recording has ended.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Installs the handler, and returns the previous action.
fn install() -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: all structures are initialised, and the handler calls only functions that are safe in a handler. The
    // kernel restarts calls that can be restarted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        if libc::sigaction(libc::SIGPROF, &raw const action, before.as_mut_ptr()) == 0 {
            return Ok(before.assume_init());
        }
    }
    let error = io::Error::last_os_error();
    PIPE.store(-1, SeqCst);
    AT_WORK.store(false, SeqCst);
    Err(error)
}

fn set_timer(period: Duration) -> io::Result<()> {
    let period = libc::timeval {
        tv_sec: 0,
        tv_usec: period.subsec_micros().into(),
    };
    let timer = libc::itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the structure is initialised; the old value is not requested.
    match unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether no SIGPROF is pending; waits briefly if one is.
fn is_delivered() -> bool {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: sigpending initialises the set.
    let waits = unsafe {
        libc::sigemptyset(pending.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        libc::sigismember(pending.as_ptr(), libc::SIGPROF) == 1
    };
    if waits {
        thread::sleep(Duration::from_millis(1));
    }
    !waits
}

/// Writes the stack of the interrupted thread into the pipe. rustix makes raw system calls, so `errno` is unchanged.
extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    HANDLERS.fetch_add(1, SeqCst);
    let (pipe, memory) = (PIPE.load(SeqCst), MEMORY.load(SeqCst));
    if pipe >= 0 {
        // SAFETY: the kernel passes the registers of the interrupted thread to a handler with SA_SIGINFO.
        let (place, frame) = unsafe { registers(&*context.cast()) };
        // SAFETY: the descriptors are closed only when `HANDLERS` is zero.
        let (pipe, memory) =
            unsafe { (BorrowedFd::borrow_raw(pipe), BorrowedFd::borrow_raw(memory)) };
        let mut record = [0; HEAD + DEPTH];
        record[1] = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let length = walk(memory, place, frame, &mut record[HEAD..]);
        record[0] = length as u64;
        let mut bytes = [0; (HEAD + DEPTH) * WORD];
        for (into, word) in bytes.as_chunks_mut().0.iter_mut().zip(record) {
            *into = word.to_ne_bytes();
        }
        if rustix::io::write(pipe, &bytes[..(HEAD + length) * WORD]).is_err() {
            LOST.fetch_add(1, SeqCst);
        }
    }
    HANDLERS.fetch_sub(1, SeqCst);
}

/// Follows the frame pointers: each frame holds the caller's frame and the return address.
fn walk(memory: BorrowedFd<'_>, place: u64, mut frame: u64, into: &mut [u64]) -> usize {
    let mut length = 0;
    let mut place = place;
    for slot in into {
        *slot = place;
        length += 1;
        let mut words = [0; 2 * WORD];
        if !frame.is_multiple_of(WORD as u64)
            || rustix::io::pread(memory, &mut words, frame) != Ok(2 * WORD)
        {
            break;
        }
        let [caller, goes_on] = *words.as_chunks().0 else {
            break;
        };
        let caller = u64::from_ne_bytes(caller);
        place = u64::from_ne_bytes(goes_on);
        // Callers are at higher addresses.
        if place == 0 || caller != 0 && caller <= frame {
            break;
        }
        frame = caller;
    }
    length
}

/// Returns the program counter and the frame pointer.
#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> (u64, u64) {
    let registers = &context.uc_mcontext.gregs;
    let of = |register: libc::c_int| registers[register as usize] as u64;
    (of(libc::REG_RIP), of(libc::REG_RBP))
}

/// Returns the program counter and the frame pointer.
#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> (u64, u64) {
    (context.uc_mcontext.pc, context.uc_mcontext.regs[29])
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::process::Command;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;
    use crate::profile::Profile;

    #[inline(never)]
    fn work_of_the_innermost(end: Duration) -> u64 {
        let mut sum = 0_u64;
        while used() < end {
            for number in 0..100_000_u64 {
                sum = black_box(sum.wrapping_mul(31) ^ number);
            }
        }
        sum
    }

    #[inline(never)]
    fn caller_of_the_innermost(end: Duration) -> u64 {
        black_box(work_of_the_innermost(end))
    }

    /// Returns the processor time of this process.
    fn used() -> Duration {
        clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
    }

    fn timer() -> libc::itimerval {
        let mut timer = MaybeUninit::uninit();
        // SAFETY: getitimer fills in the structure.
        unsafe {
            libc::getitimer(libc::ITIMER_PROF, timer.as_mut_ptr());
            timer.assume_init()
        }
    }

    fn handler() -> libc::sighandler_t {
        let mut action = MaybeUninit::uninit();
        // SAFETY: sigaction fills in the structure.
        unsafe {
            libc::sigaction(libc::SIGPROF, std::ptr::null(), action.as_mut_ptr());
            action.assume_init().sa_sigaction
        }
    }

    // One test, as there is one timer for the whole process.
    #[test]
    fn samples_are_as_many_as_promised_and_nothing_stays_behind() {
        let mut sampler = Sampler::start().unwrap().unwrap();
        assert!(Sampler::start().unwrap().is_none(), "one at a time");
        let begun = used();
        let end = begun + Duration::from_secs(3);
        let mut stacks = Stacks::default();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| caller_of_the_innermost(end));
            }
            while used() < end {
                // A program started meanwhile has neither the timer nor the signal.
                let mut status = Command::new("grep");
                let status = status.args(["SigIgn", "/proc/self/status"]).output();
                let status = status.unwrap();
                assert!(status.status.success());
                let ignored = String::from_utf8(status.stdout).unwrap();
                let ignored = ignored.trim().rsplit('\t').next().unwrap();
                let ignored = u64::from_str_radix(ignored, 16).unwrap();
                assert_eq!(ignored >> (libc::SIGPROF - 1) & 1, 0);
                thread::sleep(Duration::from_millis(100));
                sampler.drain(&mut stacks);
            }
        });
        let busy = used().checked_sub(begun).unwrap();
        sampler.stop();
        sampler.drain(&mut stacks);
        assert_eq!(sampler.lost(), 0);
        assert_eq!(handler(), libc::SIG_DFL);
        assert_eq!(
            (timer().it_value.tv_usec, timer().it_interval.tv_usec),
            (0, 0)
        );

        let profile = stacks.named(Profile::default());
        profile.check().unwrap();
        let wanted = busy.as_secs_f64() * FREQUENCY as f64;
        let samples = profile.samples() as f64;
        assert!(
            (samples - wanted).abs() < wanted / 5.0,
            "{samples} of {wanted}"
        );
        let position = |functions: &[usize], name: &str| {
            functions
                .iter()
                .position(|it| profile.names[*it].contains(name))
        };
        let in_order: u64 = profile
            .stacks
            .iter()
            .filter(|stack| {
                let caller = position(&stack.functions, "caller_of_the_innermost");
                let called = position(&stack.functions, "::work_of_the_innermost");
                caller.is_some() && called == caller.map(|caller| caller + 1)
            })
            .map(|stack| stack.count)
            .sum();
        assert!(in_order as f64 > samples * 0.8, "{in_order} of {samples}");
        drop(sampler);
        assert!(Sampler::start().unwrap().is_some(), "the next one");
    }
}
