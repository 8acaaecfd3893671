//! Job queues: jobs of one lane run in order, and no lane waits for another.

use std::collections::{HashMap, VecDeque};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

/// Number of lanes that run in parallel. A lane may hang, and then occupies one of these slots.
const SIDE_BY_SIDE: usize = 32;

/// Job queues by lane name. Each lane runs one job at a time.
pub(crate) struct Lanes<J, D> {
    carry_out: Box<dyn Fn(J) -> BoxFuture<'static, D> + Send>,
    at_work: FuturesUnordered<BoxFuture<'static, (String, D)>>,
    /// The queued jobs of each lane that is running or waiting for a slot.
    following: HashMap<String, VecDeque<J>>,
    in_line: VecDeque<String>,
    waiting: usize,
}

impl<J, D: 'static> Lanes<J, D> {
    pub(crate) fn new(carry_out: impl Fn(J) -> BoxFuture<'static, D> + Send + 'static) -> Self {
        Self {
            carry_out: Box::new(carry_out),
            at_work: FuturesUnordered::new(),
            following: HashMap::new(),
            in_line: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Returns the number of jobs that have not started.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Appends a job to its lane.
    pub(crate) fn push(&mut self, lane: &str, job: J) {
        self.waiting += 1;
        if let Some(following) = self.following.get_mut(lane) {
            following.push_back(job);
            return;
        }
        self.following.insert(lane.to_owned(), [job].into());
        self.in_line.push_back(lane.to_owned());
        self.begin();
    }

    /// Waits for the next finished job and returns it with its lane, which pauses until [`go_on`](Self::go_on). `None`
    /// if no job is running.
    pub(crate) async fn next(&mut self) -> Option<(String, D)> {
        self.at_work.next().await
    }

    /// Finds the first matching job that is queued in a lane.
    pub(crate) fn find(&mut self, lane: &str, is_it: impl Fn(&J) -> bool) -> Option<&mut J> {
        let following = self.following.get_mut(lane)?;
        following.iter_mut().find(|job| is_it(job))
    }

    /// Resumes a lane, with the job `first` before the queued ones.
    pub(crate) fn go_on(&mut self, lane: String, first: Option<J>) {
        let following = self.following.entry(lane.clone()).or_default();
        self.waiting += usize::from(first.is_some());
        if let Some(first) = first {
            following.push_front(first);
        }
        if following.is_empty() {
            self.following.remove(&lane);
        } else {
            // The lane goes behind the others, so that a busy lane delays none of them.
            self.in_line.push_back(lane);
        }
        self.begin();
    }

    fn begin(&mut self) {
        while self.at_work.len() < SIDE_BY_SIDE {
            let Some(lane) = self.in_line.pop_front() else {
                return;
            };
            let following = self.following.get_mut(&lane);
            if let Some(job) = following.and_then(VecDeque::pop_front) {
                self.waiting -= 1;
                let work = (self.carry_out)(job);
                self.at_work
                    .push(Box::pin(async move { (lane, work.await) }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    /// Creates lanes whose jobs wait until `through` reaches their number.
    fn lanes(through: &watch::Receiver<usize>) -> Lanes<usize, usize> {
        let through = through.clone();
        Lanes::new(move |job| {
            let mut through = through.clone();
            Box::pin(async move {
                let _ = through.wait_for(|most| job <= *most).await;
                job
            })
        })
    }

    async fn next(lanes: &mut Lanes<usize, usize>) -> (String, usize) {
        lanes.next().await.expect("something is at work")
    }

    #[tokio::test]
    async fn a_lane_keeps_its_order_and_waits_for_no_other() {
        let (let_through, through) = watch::channel(5);
        let mut lanes = lanes(&through);
        lanes.push("hung", 9);
        lanes.push("hung", 1);
        for job in [3, 2, 4] {
            lanes.push("well", job);
        }
        assert_eq!(lanes.waiting(), 3);
        for expected in [3, 2] {
            let (lane, job) = next(&mut lanes).await;
            assert_eq!((lane.as_str(), job), ("well", expected));
            lanes.go_on(lane, None);
        }
        let (lane, job) = next(&mut lanes).await;
        assert_eq!(job, 4);
        lanes.go_on(lane, Some(5));
        let (lane, job) = next(&mut lanes).await;
        assert_eq!(job, 5, "once more");
        lanes.go_on(lane, None);
        let_through.send_replace(9);
        let (lane, job) = next(&mut lanes).await;
        assert_eq!((lane.as_str(), job), ("hung", 9));
        assert!(lanes.find(&lane, |job| *job == 1).is_some());
        assert!(lanes.find(&lane, |job| *job == 2).is_none());
        lanes.go_on(lane, None);
        assert_eq!(next(&mut lanes).await.1, 1);
        lanes.go_on("hung".to_owned(), None);
        assert!(lanes.next().await.is_none() && lanes.following.is_empty());
    }

    #[tokio::test]
    async fn no_more_lanes_are_at_work_than_may() {
        let (let_through, through) = watch::channel(0);
        let mut lanes = lanes(&through);
        for job in 1..=SIDE_BY_SIDE + 3 {
            lanes.push(&job.to_string(), job);
        }
        assert_eq!((lanes.at_work.len(), lanes.waiting()), (SIDE_BY_SIDE, 3));
        let_through.send_replace(usize::MAX);
        for _ in 1..=SIDE_BY_SIDE + 3 {
            let (lane, _) = next(&mut lanes).await;
            lanes.go_on(lane, None);
        }
        assert_eq!((lanes.at_work.len(), lanes.waiting()), (0, 0));
    }
}
