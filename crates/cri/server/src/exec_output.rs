//! Buffer for a command's output until the command exits (`ExecSync`).
//!
//! A response must fit into a message, and any number of commands run in parallel. Excess output is dropped without an
//! error, as the CRI specifies: the start of each stream is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orlop_cri_api::server::MessageLimits;

/// Bytes of a message in addition to the streams.
const FRAME: usize = 4 << 10;

/// Bytes that each stream may always buffer, independent of other commands. Health checks print less.
const ALWAYS: usize = 16 << 10;

/// Memory limit for the output of all running commands.
#[derive(Debug, Clone)]
pub struct OutputBudget {
    shares: Arc<Shares>,
    /// Maximum size in bytes of both streams in a response.
    both: usize,
}

#[derive(Debug)]
struct Shares {
    all: AtomicUsize,
    taken: AtomicUsize,
}

impl OutputBudget {
    /// Creates a limit of `bytes`. A response fits into a message of `message` bytes and into one that kubelets
    /// accept.
    pub fn new(bytes: usize, message: usize) -> Self {
        Self {
            shares: Arc::new(Shares {
                all: AtomicUsize::new(bytes),
                taken: AtomicUsize::new(0),
            }),
            both: message.min(MessageLimits::KUBELET).saturating_sub(FRAME),
        }
    }

    /// Changes the limit; memory beyond it stays in use until it is released.
    pub fn resize(&self, bytes: usize) {
        self.shares.all.store(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) -> bool {
        let all = self.shares.all.load(Ordering::Relaxed);
        let taken = self
            .shares
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(bytes).filter(|taken| *taken <= all)
            });
        taken.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.shares.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// The standard output.
    Out,
    /// The standard error.
    Err,
}

/// The buffered output of one command.
#[derive(Debug)]
pub struct ExecOutput {
    streams: [Kept; 2],
    each: usize,
    budget: OutputBudget,
    taken: usize,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Whether output was dropped; everything after a gap is dropped, too.
    cut: bool,
}

impl ExecOutput {
    /// Creates an empty buffer with at most `each` bytes per stream.
    pub fn new(each: usize, budget: &OutputBudget) -> Self {
        Self {
            streams: Default::default(),
            each,
            budget: budget.clone(),
            taken: 0,
        }
    }

    /// Buffers output and drops the excess. A stream is guaranteed half of the space, and may use what the other one
    /// leaves.
    pub fn keep(&mut self, stream: OutputStream, bytes: &[u8]) {
        let (own, other) = match stream {
            OutputStream::Out => (0, 1),
            OutputStream::Err => (1, 0),
        };
        if self.streams[own].cut {
            return;
        }
        let length = self.streams[own].bytes.len();
        let wanted = bytes.len().min(self.each.saturating_sub(length));
        let mut free = self.budget.both - length - self.streams[other].bytes.len();
        let surplus = self.streams[other]
            .bytes
            .len()
            .saturating_sub(self.budget.both / 2);
        let given = wanted.saturating_sub(free).min(surplus);
        if given > 0 {
            let other = &mut self.streams[other];
            other.bytes.truncate(other.bytes.len() - given);
            other.cut = true;
            free += given;
        }
        let fits = self.make_room(own, wanted.min(free));
        let kept = &mut self.streams[own];
        kept.bytes.extend_from_slice(&bytes[..fits]);
        kept.cut |= fits < bytes.len();
    }

    /// Whether output was dropped.
    pub fn is_cut(&self) -> bool {
        self.streams.iter().any(|stream| stream.cut)
    }

    /// Takes the buffered standard output and standard error.
    pub fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        let [out, err] = &mut self.streams;
        (
            std::mem::take(&mut out.bytes),
            std::mem::take(&mut err.bytes),
        )
    }

    /// Reserves memory for more of a stream and returns how much is available.
    fn make_room(&mut self, stream: usize, more: usize) -> usize {
        let bytes = &mut self.streams[stream].bytes;
        let (length, capacity) = (bytes.len(), bytes.capacity());
        if length + more <= capacity {
            return more;
        }
        // Tries to double the capacity, and otherwise takes only what is needed.
        for capacity_wanted in [
            (length + more).max(2 * length).min(self.each),
            length + more,
        ] {
            let charged = |capacity: usize| capacity.saturating_sub(ALWAYS);
            let price = charged(capacity_wanted) - charged(capacity);
            if price == 0 || self.budget.take(price) {
                self.taken += price;
                bytes.reserve_exact(capacity_wanted - length);
                return more;
            }
        }
        let always = ALWAYS.min(length + more);
        if always > capacity {
            bytes.reserve_exact(always - length);
        }
        (always.max(capacity) - length).min(more)
    }
}

impl Drop for ExecOutput {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    const BOTH: usize = 16 * MIB - FRAME;

    fn print(output: &mut ExecOutput, stream: OutputStream, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let chunk = left.min(60_000);
            output.keep(stream, &vec![b'x'; chunk]);
            left -= chunk;
        }
    }

    #[test]
    fn both_streams_together_fit_into_a_message() {
        let budget = OutputBudget::new(100 * MIB, 64 * MIB);
        for order in [
            [OutputStream::Out, OutputStream::Err],
            [OutputStream::Err, OutputStream::Out],
        ] {
            let mut output = ExecOutput::new(16 * MIB, &budget);
            for stream in order {
                print(&mut output, stream, 20 * MIB);
            }
            assert!(output.is_cut());
            let (out, err) = output.take();
            assert_eq!(out.len() + err.len(), BOTH);
            assert_eq!(out.len(), err.len(), "the later one has its half");
        }
        let mut output = ExecOutput::new(16 * MIB, &budget);
        print(&mut output, OutputStream::Out, 20 * MIB);
        print(&mut output, OutputStream::Err, 5);
        let (out, err) = output.take();
        assert_eq!((out.len(), err.len()), (BOTH - 5, 5));
    }

    #[test]
    fn what_is_kept_has_no_gap() {
        let budget = OutputBudget::new(100 * MIB, 64 * MIB);
        let mut output = ExecOutput::new(10, &budget);
        output.keep(OutputStream::Out, b"12345678");
        output.keep(OutputStream::Out, b"9012");
        output.keep(OutputStream::Out, b"x");
        output.keep(OutputStream::Err, b"whole");
        assert!(output.is_cut());
        let kept = output.take();
        assert_eq!(kept, (b"1234567890".to_vec(), b"whole".to_vec()));
    }

    #[test]
    fn all_commands_together_keep_no_more_than_the_budget() {
        let budget = OutputBudget::new(8 * MIB, 16 * MIB);
        let mut outputs = Vec::new();
        for _ in 0..100 {
            let mut output = ExecOutput::new(16 * MIB, &budget);
            print(&mut output, OutputStream::Out, 2 * MIB);
            outputs.push(output);
        }
        let memory = |output: &ExecOutput| output.streams[0].bytes.capacity();
        let all: usize = outputs.iter().map(memory).sum();
        assert!(all <= 8 * MIB + 100 * ALWAYS, "{all} bytes");
        let last = outputs.last().unwrap();
        assert_eq!(last.streams[0].bytes.len(), ALWAYS, "a little is for all");
        drop(outputs);
        assert_eq!(budget.shares.taken.load(Ordering::Relaxed), 0);
    }
}
