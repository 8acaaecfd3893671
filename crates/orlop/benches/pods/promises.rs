//! What SPECIFICATION.md promises, held against what was measured.

use crate::report::{self, Report};
use crate::{Kind, flat};

/// How much worse the few rounds of an unoptimised build may be than what is promised.
const LEEWAY: f64 = 4.0;

/// The promises that these results break. What is promised and was not measured is broken, too.
pub(crate) fn broken(report: &Report, kind: Kind) -> Vec<String> {
    let leeway = if kind == Kind::Short { LEEWAY } else { 1.0 };
    let mut broken = Vec::new();
    let theirs = |row, part: f64| {
        let median = report.median(row, report::CONTAINERD);
        median.map(|theirs| theirs * part * leeway)
    };
    let mut hold = |row: &'static str, subject: &'static str, limit: Option<f64>| {
        let value = report.median(row, subject);
        match (value, limit) {
            (Some(value), Some(limit)) if value > limit => broken.push(format!(
                "{row} ({subject}): {value:.2}, promised at most {limit:.2}"
            )),
            (Some(_), Some(_)) => {}
            // crun is an offer, and who asks for statistics alone wants nothing else.
            _ if subject == report::ON_CRUN || kind == Kind::Statistics => {}
            (None, _) => broken.push(format!("{row} ({subject}): was not measured")),
            (_, None) => broken.push(format!("{row}: there is nothing to compare it with")),
        }
    };
    hold(report::POD_UP, report::ORLOP, theirs(report::POD_UP, 0.4));
    hold(report::POD_UP, report::ON_CRUN, theirs(report::POD_UP, 0.4));
    hold(
        report::POD_DOWN,
        report::ORLOP,
        theirs(report::POD_DOWN, 0.25),
    );
    hold(report::REMOVED, report::ORLOP, theirs(report::REMOVED, 1.0));
    for row in [report::BRIDGE_UP, report::BRIDGE_DOWN] {
        hold(row, report::ORLOP, theirs(row, 0.2));
    }
    for row in [
        report::CROWD_FAILED,
        report::NETWORKED_FAILED,
        report::ADDRESSES_TWICE,
    ] {
        hold(row, report::ORLOP, Some(0.0));
    }
    if kind == Kind::Short {
        // The rest are numbers of the optimised build.
        return broken;
    }
    let own_exec = report.median(report::OWN_EXEC, report::ORLOP);
    let theirs_cpu = report.median(report::STATS_CPU, report::CONTAINERD);
    let theirs_cpu = theirs_cpu.map(|theirs| theirs * 0.02);
    let limits = [
        (report::EXEC, own_exec.map(|own| own + 3.0)),
        (report::NETWORK, Some(2.0)),
        (report::LIST, Some(5.0)),
        (report::PROMPT, Some(10.0)),
        (report::BINARY, Some(25.0)),
        (report::STATS, Some(10.0)),
        // Processor time is the machine's, so theirs on the same machine says how much that is.
        (report::STATS_CPU, theirs_cpu),
        (report::METRICS, Some(15.0)),
        (report::RESTART, Some(1000.0)),
        (report::MEMORY, Some(300.0)),
        (report::IDLE, Some(0.2)),
        (report::POLLING, Some(0.5)),
    ];
    for (row, limit) in limits {
        hold(row, report::ORLOP, limit);
    }
    broken
}

/// The same of pods among many.
pub(crate) fn broken_by_many(report: &Report, short: bool) -> Vec<String> {
    let leeway = if short { LEEWAY } else { 1.0 };
    let mut broken = Vec::new();
    let mut hold = |row: &'static str, limit: Option<f64>| {
        let value = report.median(row, report::ORLOP);
        match value.zip(limit) {
            Some((value, limit)) if value <= limit * leeway => {}
            Some((value, limit)) => {
                broken.push(format!("{row}: {value:.2}, promised at most {limit:.2}"));
            }
            None => broken.push(format!("{row}: was not measured")),
        }
    };
    let first = report.median("first: up", report::ORLOP);
    for row in ["foreign: up", "among many: up"] {
        hold(row, first.map(|first| first * 1.2));
    }
    let limits = [
        ("first: run", 4.0),
        ("first: create", 1.5),
        ("first: down", 8.0),
        (flat::DESCRIPTORS, 5.0),
    ];
    for (row, limit) in limits {
        hold(row, Some(limit));
    }
    broken
}
