//! The machine's clock is set back and forward while pods come and go.

use std::time::{Duration, Instant};

use orlop_testkit::{Chance, machine, skip_unless};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};
use tonic::Code;

use super::life::{Life, Network};
use super::{Remains, number};
use crate::world::ours;

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;

/// By how many seconds the clock is set on, or back.
const JUMPS: [i64; 8] = [
    1,
    -1,
    HOUR,
    -2 * HOUR,
    YEAR,
    -2 * YEAR,
    -10 * YEAR,
    12 * YEAR,
];

/// How long a command may take that has a limit of two seconds.
const SOON: Duration = Duration::from_secs(20);

/// The clock as it would be had nobody set it; set to that again in the end.
struct Clock {
    begun: Instant,
    was: i64,
}

impl Clock {
    fn now() -> Self {
        Self {
            begun: Instant::now(),
            was: clock_gettime(ClockId::Realtime).tv_sec,
        }
    }

    fn set(&self, seconds: i64) {
        let since = i64::try_from(self.begun.elapsed().as_secs()).expect("not for ever");
        let time = Timespec {
            tv_sec: self.was + since + seconds,
            tv_nsec: 0,
        };
        clock_settime(ClockId::Realtime, time).expect("set the clock");
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[tokio::test]
async fn a_clock_that_is_set_disturbs_nothing() {
    skip_unless!(machine::is_for_the_tests_alone());
    let mut world = ours!();
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    let bystander = world.run_script("bystander", "sleep 86400").await;
    let started = world.cri.status(&bystander.id).await.expect("status");
    let first = Life::new(&world, "first".to_owned(), Network::Own).await;
    first.go_on().await.expect("nothing is wrong yet");
    let before = Remains::of(&world.node);

    let clock = Clock::now();
    for (nth, jump) in JUMPS.into_iter().enumerate() {
        let life = Life::new(&world, format!("life{nth}"), Network::Own).await;
        let set = async {
            tokio::time::sleep(Duration::from_millis(chance.below(1000) as u64)).await;
            clock.set(jump);
        };
        // A limit is a time that passes, whatever the clock says of it.
        let within = world.cri.exec_within(&bystander.id, &["sleep", "2"], 60);
        let begun = Instant::now();
        let beyond = async {
            let answer = world.cri.exec_within(&bystander.id, &["sleep", "60"], 2);
            (answer.await, begun.elapsed())
        };
        let ((), troubles, within, (beyond, took)) =
            tokio::join!(set, life.go_on(), within, beyond);
        let told = format!("the clock was set by {jump} s");
        assert_eq!(troubles, Ok(Vec::new()), "{told}");
        assert_eq!(within.expect(&told).exit_code, 0, "{told}");
        assert_eq!(
            beyond.expect_err(&told).code(),
            Code::DeadlineExceeded,
            "{told}"
        );
        assert!(took < SOON, "{told}: a command with 2 s took {took:.0?}");
        if let Err(left) = Remains::settled(&world.node, &before).await {
            panic!("{told}: {left}");
        }
        // One that starts finds records of the future or of long ago.
        world.restart().await;
        let now = world.cri.status(&bystander.id).await.expect(&told);
        assert_eq!(
            (now.started_at, now.state()),
            (started.started_at, started.state()),
            "{told}"
        );
    }
    drop(clock);
    world.finish().await;
}
