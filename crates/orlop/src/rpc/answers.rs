//! Answers that wait until their clients read them.
//!
//! Who asks for lists and reads none of them would have all of the node's memory otherwise. A process may
//! have half of what there is for answers, so that one which does not read keeps no other from its own. Where
//! all is taken nevertheless, connections are closed whose answers have waited for long.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tonic::Status;

use super::peer::Peer;

/// For all answers at a time; one more is let in where none waits.
const ALL: usize = 256 << 20;
/// For those of one process.
const OF_ONE: usize = ALL / 2;
/// What an answer takes beside its bytes.
const BESIDE: usize = 1 << 10;
/// Who reads does so within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    of_process: HashMap<Option<u32>, usize>,
    next: u64,
    /// The oldest first.
    answers: BTreeMap<u64, Answer>,
}

#[derive(Debug)]
struct Answer {
    peer: Peer,
    bytes: usize,
    since: Instant,
}

/// The room of an answer, until it has been read.
#[derive(Debug)]
pub(super) struct Share(Arc<Answers>, u64);

impl Answers {
    /// Has an answer of so many bytes wait for its client, if there is room.
    pub(super) fn wait(self: &Arc<Self>, peer: &Peer, bytes: usize) -> Result<Share, Status> {
        self.wait_from(peer, bytes, Instant::now())
    }

    fn wait_from(
        self: &Arc<Self>,
        peer: &Peer,
        bytes: usize,
        now: Instant,
    ) -> Result<Share, Status> {
        let bytes = bytes + BESIDE;
        let process = peer.process();
        let mut waiting = self.0.lock();
        let own = waiting.of_process.get(&process).copied().unwrap_or(0);
        if own > 0 && own + bytes > OF_ONE {
            return Err(Status::resource_exhausted(format!(
                "{own} bytes of answers to this client wait to be read: read them before asking for more"
            )));
        }
        if waiting.bytes > 0 && waiting.bytes + bytes > ALL {
            waiting.close_late(now);
            return Err(Status::resource_exhausted(
                "answers that clients do not read take all the memory for answers: try again later",
            ));
        }
        waiting.bytes += bytes;
        *waiting.of_process.entry(process).or_default() += bytes;
        waiting.next += 1;
        let number = waiting.next;
        let answer = Answer {
            peer: peer.clone(),
            bytes,
            since: now,
        };
        waiting.answers.insert(number, answer);
        Ok(Share(Arc::clone(self), number))
    }
}

impl Waiting {
    fn close_late(&self, now: Instant) {
        let late = self.answers.values();
        let late = late.take_while(|answer| now.duration_since(answer.since) >= PATIENCE);
        for answer in late {
            if !answer.peer.is_leaving() {
                let (pid, bytes) = (answer.peer.process(), answer.bytes);
                tracing::warn!(
                    pid,
                    bytes,
                    "closing a connection whose answers are not read"
                );
                answer.peer.leave();
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut waiting = self.0.0.lock();
        let Some(answer) = waiting.answers.remove(&self.1) else {
            return;
        };
        waiting.bytes -= answer.bytes;
        let process = answer.peer.process();
        if let Some(own) = waiting.of_process.get_mut(&process) {
            *own -= answer.bytes;
            if *own == 0 {
                waiting.of_process.remove(&process);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    const MIB: usize = 1 << 20;

    fn peer(process: u32) -> Peer {
        Peer::of(Some(process), TaskTracker::new().token())
    }

    #[test]
    fn who_does_not_read_has_half_of_the_room_and_loses_it_when_others_want_it() {
        let answers = Arc::new(Answers::default());
        let (begin, late) = (Instant::now(), Instant::now() + PATIENCE);
        let fill = |peer: &Peer, now| {
            let shares = std::iter::from_fn(|| answers.wait_from(peer, 8 * MIB, now).ok());
            shares.collect::<Vec<_>>()
        };
        let (first, second, third) = (peer(1), peer(2), peer(3));
        let of_first = fill(&first, begin);
        assert_eq!(of_first.len(), 15);
        let of_second = fill(&second, begin);
        assert_eq!(of_second.len(), 15, "one keeps no other from its own");
        let taken = fill(&third, begin).len();
        assert!(taken <= 2, "{taken}");
        assert!(!first.is_leaving(), "it has had no time to read");
        let rest = fill(&third, late);
        assert!(first.is_leaving() && second.is_leaving() && !third.is_leaving());
        drop((of_first, of_second, rest));
        assert_eq!(fill(&third, late).len(), 15);
        let waiting = answers.0.lock();
        assert_eq!((waiting.bytes, waiting.of_process.len()), (0, 0));
    }

    #[test]
    fn one_answer_of_any_size_is_given() {
        let answers = Arc::new(Answers::default());
        let large = answers.wait(&peer(1), 2 * ALL).unwrap();
        answers.wait(&peer(1), 1).unwrap_err();
        drop(large);
        answers.wait(&peer(1), 1).unwrap();
    }
}
