//! Memory accounting for responses that clients have not read yet.
//!
//! A client that requests lists and never reads the responses would otherwise use up the node's memory. One process may
//! use half of the memory for responses, so that it cannot block other clients. If a process exceeds its half, or the
//! total is used up, connections whose responses have waited too long are closed.
//!
//! Only large responses are refused. These are lists and states, which a client can request again. A small response
//! reports what was done, and an error would not undo it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use orlop_listen::READ_TIMEOUT;
use parking_lot::Mutex;
use tonic::Status;

use super::peer::Peer;

/// Limit for all responses together; a single response is always accepted.
const ALL: usize = 256 << 20;
/// Limit for the responses to one process.
const OF_ONE: usize = ALL / 2;
/// Bytes that a response uses in addition to its content.
const BESIDE: usize = 1 << 10;
/// Responses up to this size are never refused.
pub(super) const SMALL: usize = 16 << 10;

/// All unread responses.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    of_process: HashMap<Option<u32>, usize>,
    next: u64,
    /// Sorted by age, oldest first.
    answers: BTreeMap<u64, Answer>,
}

#[derive(Debug)]
struct Answer {
    peer: Peer,
    bytes: usize,
    since: Instant,
}

/// Reserved memory of a response, released when it was read.
#[derive(Debug)]
pub(super) struct Share(Arc<Answers>, u64);

impl Answers {
    /// Reserves memory for a response until the client reads it, if the limits allow it.
    pub(super) fn wait(self: &Arc<Self>, peer: &Peer, bytes: usize) -> Result<Share, Status> {
        self.wait_from(peer, bytes, Instant::now())
    }

    fn wait_from(
        self: &Arc<Self>,
        peer: &Peer,
        bytes: usize,
        now: Instant,
    ) -> Result<Share, Status> {
        let is_large = bytes > SMALL;
        let bytes = bytes + BESIDE;
        let process = peer.process();
        let mut waiting = self.0.lock();
        let own = waiting.of_process.get(&process).copied().unwrap_or(0);
        let is_too_much_of_one = own > 0 && own + bytes > OF_ONE;
        let is_too_much = waiting.bytes > 0 && waiting.bytes + bytes > ALL;
        if is_too_much {
            waiting.close_late(now, |_| true);
        } else if is_too_much_of_one {
            waiting.close_late(now, |other| other.process() == process);
        }
        if is_large && is_too_much_of_one {
            return Err(Status::resource_exhausted(format!(
                "{own} bytes of responses to this client are unread; read them before sending more \
                 requests"
            )));
        }
        if is_large && is_too_much {
            return Err(Status::resource_exhausted(
                "unread responses use all the memory for responses; try again later",
            ));
        }
        if own + bytes > ALL {
            waiting.close_first(process);
        }
        let number = waiting.add(peer, bytes, now);
        Ok(Share(Arc::clone(self), number))
    }

    /// Reserves memory for a response that is already being sent, regardless of the limits.
    pub(super) fn count(self: &Arc<Self>, peer: &Peer, bytes: usize) -> Share {
        let number = self.0.lock().add(peer, bytes + BESIDE, Instant::now());
        Share(Arc::clone(self), number)
    }
}

impl Waiting {
    fn add(&mut self, peer: &Peer, bytes: usize, now: Instant) -> u64 {
        self.bytes += bytes;
        *self.of_process.entry(peer.process()).or_default() += bytes;
        self.next += 1;
        let answer = Answer {
            peer: peer.clone(),
            bytes,
            since: now,
        };
        self.answers.insert(self.next, answer);
        self.next
    }

    /// Closes the connections of matching peers whose responses have waited too long.
    fn close_late(&self, now: Instant, is_meant: impl Fn(&Peer) -> bool) {
        let late = self.answers.values();
        let late = late.take_while(|answer| now.duration_since(answer.since) >= READ_TIMEOUT);
        late.filter(|answer| is_meant(&answer.peer))
            .for_each(Answer::close);
    }

    /// Closes the connection of the process's oldest response.
    fn close_first(&self, process: Option<u32>) {
        let mut own = self.answers.values();
        let first = own.find(|it| it.peer.process() == process && !it.peer.is_leaving());
        first.into_iter().for_each(Answer::close);
    }
}

impl Answer {
    /// Closes the connection of this response.
    fn close(&self) {
        if !self.peer.is_leaving() {
            let (pid, bytes) = (self.peer.process(), self.bytes);
            tracing::warn!(
                pid,
                bytes,
                "closing a connection, because the client does not read its responses"
            );
            self.peer.leave();
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
    use orlop_listen::Activity;
    use tokio_util::task::TaskTracker;

    use super::*;

    const MIB: usize = 1 << 20;

    fn peer(process: u32) -> Peer {
        Peer::of(Some(process), Activity::new(TaskTracker::new().token()))
    }

    #[test]
    fn who_does_not_read_has_half_of_the_room_and_loses_it_when_others_want_it() {
        let answers = Arc::new(Answers::default());
        let (begin, late) = (Instant::now(), Instant::now() + READ_TIMEOUT);
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
        answers.wait(&peer(1), SMALL + 1).unwrap_err();
        drop(large);
        answers.wait(&peer(1), SMALL + 1).unwrap();
    }

    #[test]
    fn small_answers_are_never_refused_and_who_reads_none_loses_its_connection() {
        let answers = Arc::new(Answers::default());
        let begin = Instant::now();
        let (first, second) = (peer(1), peer(1));
        let ask = |peer: &Peer| answers.wait_from(peer, SMALL, begin).unwrap();
        let mut shares = vec![ask(&first)];
        while answers.0.lock().bytes + SMALL + BESIDE <= ALL {
            shares.push(ask(&second));
        }
        assert!(!first.is_leaving(), "it has had no time to read");
        shares.push(ask(&second));
        assert!(first.is_leaving() && !second.is_leaving());
        shares.push(ask(&second));
        assert!(second.is_leaving());
    }

    #[test]
    fn who_does_not_read_loses_its_connection_when_it_asks_for_more_than_its_part() {
        let answers = Arc::new(Answers::default());
        let (begin, late) = (Instant::now(), Instant::now() + READ_TIMEOUT);
        let (unread, other, next) = (peer(1), peer(2), peer(1));
        let _kept = answers.wait_from(&unread, OF_ONE - BESIDE, begin).unwrap();
        let _of_other = answers.wait_from(&other, MIB, begin).unwrap();
        answers.wait_from(&next, MIB, begin).unwrap_err();
        assert!(!unread.is_leaving());
        answers.wait_from(&next, MIB, late).unwrap_err();
        assert!(unread.is_leaving() && !other.is_leaving() && !next.is_leaving());
    }
}
