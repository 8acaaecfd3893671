//! What SPECIFICATION.md promises, held against what was measured.

use crate::report::{self, Report};

/// The promises that these results break.
pub(crate) fn broken(report: &Report) -> Vec<String> {
    let mut broken = Vec::new();
    let theirs = |row| report.median(row, report::CONTAINERD);
    let mut hold = |row: &'static str, subject: &'static str, limit: Option<f64>| {
        if let (Some(value), Some(limit)) = (report.median(row, subject), limit)
            && value > limit
        {
            broken.push(format!(
                "{row} ({subject}): {value:.2}, promised at most {limit:.2}"
            ));
        }
    };
    let a_third = theirs(report::POD_UP).map(|theirs| theirs / 3.0);
    hold(report::POD_UP, report::ORLOP, a_third);
    hold(report::POD_UP, report::ON_CRUN, a_third);
    for row in [report::BRIDGE_UP, report::BRIDGE_DOWN] {
        hold(row, report::ORLOP, theirs(row).map(|theirs| theirs / 5.0));
    }
    let own_exec = report.median(report::OWN_EXEC, report::ORLOP);
    let limits = [
        (report::EXEC, own_exec.map(|own| own + 3.0)),
        (report::REMOVED, theirs(report::REMOVED)),
        (report::NETWORK, Some(2.0)),
        (report::LIST, Some(5.0)),
        (report::PROMPT, Some(10.0)),
        (report::BINARY, Some(25.0)),
        (report::STATS, Some(10.0)),
        (report::STATS_CPU, Some(3.0)),
        (report::METRICS, Some(15.0)),
        (report::RESTART, Some(1000.0)),
        (report::MEMORY, Some(300.0)),
        (report::IDLE, Some(0.2)),
        (report::POLLING, Some(0.5)),
        (report::CROWD_FAILED, Some(0.0)),
        (report::NETWORKED_FAILED, Some(0.0)),
        (report::ADDRESSES_TWICE, Some(0.0)),
    ];
    for (row, limit) in limits {
        hold(row, report::ORLOP, limit);
    }
    broken
}
