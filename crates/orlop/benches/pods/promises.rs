//! What SPECIFICATION.md promises, held against what was measured.

use std::fmt;

use crate::report::{CONTAINERD, ON_RUNC, ORLOP, Report};
use crate::{Kind, rows};

/// How much worse the few rounds of an unoptimised build may compare than what is promised.
const LEEWAY: f64 = 4.0;

/// How much slower an unoptimised build may be than an optimised one is promised to be.
const UNOPTIMISED: f64 = 8.0;

/// How a value is limited.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// By nothing that leaves room.
    None,
    AtMost(f64),
    AtLeast(f64),
    /// By a number of things, which no build changes.
    Count(f64),
    /// By so many times another row of the subject's.
    AtMostTimes(f64, &'static str),
    /// By so much more than another row of the subject's.
    AtMostOver(f64, &'static str),
    /// By a part of the reference's.
    AtMostOfTheirs(f64),
    /// The reference's is at least so many times this.
    TheirsAtLeast(f64),
}

use Bound::{AtLeast, AtMost, AtMostOfTheirs, AtMostOver, AtMostTimes, Count, TheirsAtLeast};

type Promise = (&'static str, &'static str, Bound);

/// What holds of each build: comparisons, and what never happens.
const OF_ANY_BUILD: &[Promise] = &[
    (rows::POD_UP, ORLOP, TheirsAtLeast(9.0)),
    (rows::EXEC, ORLOP, TheirsAtLeast(8.0)),
    (rows::POD_DOWN, ORLOP, TheirsAtLeast(12.0)),
    // On the same runtime.
    (rows::POD_UP, ON_RUNC, AtMostOfTheirs(0.4)),
    (rows::POD_DOWN, ON_RUNC, AtMostOfTheirs(0.25)),
    (rows::HOST_UP, ON_RUNC, AtMostOfTheirs(0.4)),
    (rows::HOST_DOWN, ON_RUNC, AtMostOfTheirs(0.25)),
    (rows::REMOVED, ON_RUNC, AtMostOfTheirs(1.0)),
    (rows::RUN, ON_RUNC, AtMostOfTheirs(0.2)),
    (rows::STOP_POD, ON_RUNC, AtMostOfTheirs(0.2)),
    (rows::CROWD_FAILED, ORLOP, Bound::None),
    (rows::NETWORKED_FAILED, ORLOP, Bound::None),
    (rows::ADDRESSES_TWICE, ORLOP, Bound::None),
];

/// What holds of the optimised build.
const OF_THE_OPTIMISED: &[Promise] = &[
    (rows::RUN, ORLOP, AtMost(5.0)),
    (rows::NETWORK, ORLOP, AtMost(2.0)),
    (rows::CREATE, ORLOP, AtMost(1.5)),
    (rows::START, ORLOP, AtMost(5.5)),
    (rows::POD_UP, ORLOP, AtMost(12.0)),
    (rows::EXEC, ORLOP, AtMost(2.8)),
    (rows::EXEC, ORLOP, AtMostOver(1.5, rows::OWN_EXEC)),
    (rows::POD_DOWN, ORLOP, AtMost(8.0)),
    (rows::EXEC, ON_RUNC, AtMostOver(3.0, rows::OWN_EXEC)),
    (rows::ONE_CLIENT, ORLOP, AtLeast(55.0)),
    (rows::FOUR_CLIENTS, ORLOP, AtLeast(85.0)),
    (rows::PROBES, ORLOP, AtMost(33.0)),
    (rows::LIST, ORLOP, AtMost(5.0)),
    (rows::PROMPT, ORLOP, AtMost(10.0)),
    (rows::STATS, ORLOP, AtMost(12.0)),
    // Processor time is the machine's, so theirs on the same machine says how much that is.
    (rows::STATS_CPU, ORLOP, AtMostOfTheirs(0.04)),
    (rows::METRICS, ORLOP, AtMost(25.0)),
    (rows::RESTART, ORLOP, AtMost(1000.0)),
    (rows::MEMORY, ORLOP, AtMost(150.0)),
    (rows::IDLE, ORLOP, AtMost(0.2)),
    (rows::POLLING, ORLOP, AtMost(0.5)),
];

/// What holds of pods among many, on a runtime that costs nothing.
const AMONG_MANY: &[Promise] = &[
    ("foreign: up", ORLOP, AtMostTimes(1.2, "first: up")),
    ("among many: up", ORLOP, AtMostTimes(1.3, "first: up")),
    ("first: run", ORLOP, AtMost(6.0)),
    ("first: create", ORLOP, AtMost(1.5)),
    ("first: down", ORLOP, AtMost(8.0)),
    (rows::DESCRIPTORS, ORLOP, Count(5.0)),
];

/// The promises that these results break. What is promised and was not measured is broken, too.
pub(crate) fn broken(report: &Report, kind: Kind, short: bool) -> Vec<String> {
    let promises = match (kind, short) {
        (Kind::Pods, false) => [OF_ANY_BUILD, OF_THE_OPTIMISED].concat(),
        (Kind::Pods, true) => OF_ANY_BUILD.to_vec(),
        (Kind::Statistics, _) => OF_THE_OPTIMISED.to_vec(),
        (Kind::Flat, _) => AMONG_MANY.to_vec(),
    };
    let leeway = Leeway::of(short);
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

/// What is forgiven a build, in times of what is promised.
#[derive(Clone, Copy)]
struct Leeway {
    /// Where it is compared with another row or another subject.
    compared: f64,
    /// Where it is held to a number of the optimised build's.
    alone: f64,
}

impl Leeway {
    fn of(short: bool) -> Self {
        let (compared, alone) = if short {
            (LEEWAY, UNOPTIMISED)
        } else {
            (1.0, 1.0)
        };
        Self { compared, alone }
    }
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
    Leeway { compared, alone }: Leeway,
) -> Option<Result<(), Breach>> {
    let value = report.median(row, subject)?;
    let own = |row| report.median(row, subject);
    let theirs = || report.median(row, CONTAINERD);
    Some(match bound {
        Bound::None => at_most(value, 0.0),
        Count(limit) => at_most(value, limit),
        AtMost(limit) => at_most(value, limit * alone),
        AtLeast(limit) => at_least(value, limit / alone),
        AtMostTimes(times, of) => at_most(value, own(of)? * times * compared),
        AtMostOver(more, of) => at_most(value, own(of)? + more * alone),
        AtMostOfTheirs(part) => at_most(value, theirs()? * part * compared),
        TheirsAtLeast(times) => {
            let (faster, limit) = (theirs()? / value, times / compared);
            kept(faster >= limit, Breach::TooSlow(faster, limit))
        }
    })
}

fn at_most(value: f64, limit: f64) -> Result<(), Breach> {
    kept(value <= limit, Breach::Above(value, limit))
}

fn at_least(value: f64, limit: f64) -> Result<(), Breach> {
    kept(value >= limit, Breach::Below(value, limit))
}

fn kept(is_kept: bool, breach: Breach) -> Result<(), Breach> {
    if is_kept { Ok(()) } else { Err(breach) }
}
