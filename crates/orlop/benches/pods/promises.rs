//! What SPECIFICATION.md promises, held against what was measured.

use std::fmt;

use crate::report::{CONTAINERD, FLOOR, ON_RUNC, ORLOP, Report};
use crate::{Kind, rows};

/// How much worse the few rounds of an unoptimised build may compare with others than what is promised.
const LEEWAY: f64 = 4.0;

/// The same where it compares with the kernel alone, which is optimised.
const LEEWAY_OF_FLOOR: f64 = 8.0;

/// The limit of a value.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// At most this many, on every machine and in every build.
    Count(f64),
    /// At most this much. The value hardly depends on the machine.
    AtMost(f64),
    /// At most this many times another row of the same subject.
    AtMostTimes(f64, &'static str),
    /// At most this many times the floor's value in a row.
    AtMostOfFloor(f64, &'static str),
    /// At least this part of the floor's value in the same row.
    AtLeastOfFloor(f64),
    /// At most this part of containerd's value in the same row.
    AtMostOfTheirs(f64),
    /// Containerd's value in the same row is at least this many times as large.
    TheirsAtLeast(f64),
}

use Bound::{
    AtLeastOfFloor, AtMost, AtMostOfFloor, AtMostOfTheirs, AtMostTimes, Count, TheirsAtLeast,
};

type Promise = (&'static str, &'static str, Bound);

/// What holds of each build: comparisons, and what never happens.
const OF_ANY_BUILD: &[Promise] = &[
    (rows::POD_UP, ORLOP, TheirsAtLeast(9.0)),
    (rows::EXEC, ORLOP, TheirsAtLeast(8.0)),
    (rows::POD_DOWN, ORLOP, TheirsAtLeast(12.0)),
    (rows::RUN, ORLOP, AtMostOfFloor(2.0, rows::RUN)),
    (rows::NETWORK, ORLOP, AtMostOfFloor(1.5, rows::NETWORK)),
    (rows::POD_UP, ORLOP, AtMostOfFloor(4.0, rows::POD_UP)),
    (rows::POD_DOWN, ORLOP, AtMostOfFloor(8.0, rows::POD_DOWN)),
    (rows::EXEC, ORLOP, AtMostOfFloor(3.0, rows::EXEC)),
    (rows::EXEC, ORLOP, AtMostTimes(2.0, rows::OWN_EXEC)),
    (rows::ONE_CLIENT, ORLOP, AtLeastOfFloor(0.25)),
    (rows::FOUR_CLIENTS, ORLOP, AtLeastOfFloor(0.3)),
    // On the same runtime.
    (rows::POD_UP, ON_RUNC, AtMostOfTheirs(0.4)),
    (rows::POD_DOWN, ON_RUNC, AtMostOfTheirs(0.25)),
    (rows::HOST_UP, ON_RUNC, AtMostOfTheirs(0.4)),
    (rows::HOST_DOWN, ON_RUNC, AtMostOfTheirs(0.25)),
    (rows::REMOVED, ON_RUNC, AtMostOfTheirs(1.0)),
    (rows::RUN, ON_RUNC, AtMostOfTheirs(0.2)),
    (rows::STOP_POD, ON_RUNC, AtMostOfTheirs(0.2)),
    (rows::EXEC, ON_RUNC, AtMostTimes(1.3, rows::OWN_EXEC)),
    (rows::CROWD_FAILED, ORLOP, Count(0.0)),
    (rows::NETWORKED_FAILED, ORLOP, Count(0.0)),
    (rows::ADDRESSES_TWICE, ORLOP, Count(0.0)),
];

/// What holds of the optimised build, and of enough pods.
const OF_THE_OPTIMISED: &[Promise] = &[
    (rows::PROBES, ORLOP, AtMostOfTheirs(0.35)),
    (rows::LIST, ORLOP, AtMostOfTheirs(1.0)),
    (rows::PROMPT, ORLOP, AtMostOfFloor(10.0, rows::EXEC)),
    (rows::STATS, ORLOP, AtMostOfTheirs(0.1)),
    (rows::STATS_CPU, ORLOP, AtMostOfTheirs(0.04)),
    (rows::METRICS, ORLOP, AtMostTimes(2.5, rows::STATS)),
    (rows::RESTART, ORLOP, AtMostOfTheirs(0.5)),
    (rows::MEMORY, ORLOP, AtMost(150.0)),
    (rows::IDLE, ORLOP, AtMost(0.2)),
    (rows::POLLING, ORLOP, AtMostOfTheirs(0.2)),
];

/// What holds of pods among many, on a runtime that costs nothing.
const AMONG_MANY: &[Promise] = &[
    ("foreign: up", ORLOP, AtMostTimes(1.2, "first: up")),
    ("among many: up", ORLOP, AtMostTimes(1.3, "first: up")),
    ("first: run", ORLOP, AtMostOfFloor(2.0, rows::RUN)),
    ("first: up", ORLOP, AtMostOfFloor(4.0, rows::POD_UP)),
    ("first: down", ORLOP, AtMostOfFloor(8.0, rows::POD_DOWN)),
    (rows::DESCRIPTORS, ORLOP, Count(5.0)),
];

/// The promises that these results break. What is promised and was not measured is broken, too.
pub(crate) fn broken(report: &Report, kind: Kind, short: bool) -> Vec<String> {
    let promises = match (kind, short) {
        (Kind::Pods, false) => [OF_ANY_BUILD, OF_THE_OPTIMISED].concat(),
        (Kind::Pods, true) => OF_ANY_BUILD.to_vec(),
        (Kind::Statistics, _) => OF_THE_OPTIMISED.to_vec(),
        (Kind::Flat, _) => AMONG_MANY.to_vec(),
        (Kind::Floor, _) => Vec::new(),
    };
    let leeway = if short {
        [LEEWAY, LEEWAY_OF_FLOOR]
    } else {
        [1.0; 2]
    };
    let held = promises.into_iter().map(|(row, subject, bound)| {
        let cell = format!("{row} ({subject})");
        match hold(report, row, subject, bound, leeway) {
            Some(Ok(())) => None,
            Some(Err(breach)) => Some(format!("{cell}: {breach}")),
            // Who asks for statistics alone wants nothing else.
            None if kind == Kind::Statistics => None,
            None => Some(format!(
                "{cell}: it, or what it is held to, was not measured"
            )),
        }
    });
    held.flatten().collect()
}

/// How a promise was broken.
enum Breach {
    Above(f64, f64),
    Below(f64, f64),
    /// The reference takes only so many times as long.
    TooSlow(f64, f64),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Above(value, limit) => write!(f, "{value:.2}, promised at most {limit:.2}"),
            Self::Below(value, limit) => write!(f, "{value:.2}, promised at least {limit:.2}"),
            Self::TooSlow(times, limit) => write!(
                f,
                "{times:.2} times faster than {CONTAINERD}, promised at least {limit:.2}"
            ),
        }
    }
}

/// Holds a promise to what was measured, if it was.
fn hold(
    report: &Report,
    row: &'static str,
    subject: &'static str,
    bound: Bound,
    [leeway, of_floor]: [f64; 2],
) -> Option<Result<(), Breach>> {
    let value = report.median(row, subject)?;
    let own = |row| report.median(row, subject);
    let floor = |row| report.median(row, FLOOR);
    let theirs = || report.median(row, CONTAINERD);
    Some(match bound {
        Count(limit) | AtMost(limit) => at_most(value, limit),
        AtMostTimes(times, of) => at_most(value, own(of)? * times * leeway),
        AtMostOfFloor(times, of) => at_most(value, floor(of)? * times * of_floor),
        AtLeastOfFloor(part) => {
            let limit = floor(row)? * part / of_floor;
            kept(value >= limit, Breach::Below(value, limit))
        }
        AtMostOfTheirs(part) => at_most(value, theirs()? * part * leeway),
        TheirsAtLeast(times) => {
            let (faster, limit) = (theirs()? / value, times / leeway);
            kept(faster >= limit, Breach::TooSlow(faster, limit))
        }
    })
}

fn at_most(value: f64, limit: f64) -> Result<(), Breach> {
    kept(value <= limit, Breach::Above(value, limit))
}

fn kept(is_kept: bool, breach: Breach) -> Result<(), Breach> {
    if is_kept { Ok(()) } else { Err(breach) }
}
