//! Detection of threads that are dying while they wait in the kernel.
//!
//! The kernel reports every signal for a reader once. Most signals must not fail the read of a regular file, because
//! no program expects an interruption there. Signals that end the process must.

/// Reports whether a pending signal will end the thread, or the thread is not visible.
pub(crate) fn is_dying(pid: u32) -> bool {
    let status = orlop_fs::read_kernel_text(format!("/proc/{pid}/status"));
    status.map_or(true, |status| says_dying(&status))
}

fn says_dying(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
    };
    let sets = ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"].map(set);
    let [
        Some(own),
        Some(shared),
        Some(blocked),
        Some(ignored),
        Some(caught),
    ] = sets
    else {
        return true;
    };
    let pending = own | shared;
    let survived = blocked | ignored | caught | HARMLESS;
    pending & (bit(libc::SIGKILL) | !survived) != 0
}

/// Signals that do not end a process by default.
const HARMLESS: u64 = bit(libc::SIGCHLD)
    | bit(libc::SIGCONT)
    | bit(libc::SIGURG)
    | bit(libc::SIGWINCH)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);

const fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(own: u64, shared: u64, blocked: u64, ignored: u64, caught: u64) -> String {
        format!(
            "Name:\tcat\nThreads:\t1\nSigQ:\t1/95\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nCapInh:\t0\n"
        )
    }

    #[test]
    fn only_what_ends_a_thread_is_its_end() {
        let all = u64::MAX;
        let term = bit(libc::SIGTERM);
        assert!(says_dying(&status(bit(libc::SIGKILL), 0, all, all, all)));
        assert!(says_dying(&status(0, term, 0, 0, 0)));
        assert!(!says_dying(&status(0, term, term, 0, 0)));
        assert!(!says_dying(&status(0, term, 0, term, 0)));
        assert!(!says_dying(&status(term, 0, 0, 0, term)));
        let harmless = bit(libc::SIGCHLD) | bit(libc::SIGSTOP);
        assert!(!says_dying(&status(harmless, harmless, 0, 0, 0)));
        assert!(says_dying("Name:\tcat\n"));
    }

    #[test]
    fn who_lives_is_not_dying() {
        assert!(!is_dying(std::process::id()));
        assert!(is_dying(0));
        assert!(is_dying(u32::MAX));
    }
}
