//! The table of results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Our own runtime, on runc.
pub(crate) const ORLOP: &str = "orlop";
/// The reference, on runc.
pub(crate) const CONTAINERD: &str = "containerd";
/// Our own on crun, which it prefers where that works.
pub(crate) const ON_CRUN: &str = "orlop on crun";

/// From RunPodSandbox to the end of StartContainer.
pub(crate) const POD_UP: &str = "pod up";
/// A command of the kubelet's.
pub(crate) const EXEC: &str = "ExecSync";
/// From StopContainer to the end of RemovePodSandbox.
pub(crate) const POD_DOWN: &str = "pod down";
/// The same command by the runtime alone.
pub(crate) const OWN_EXEC: &str = "the runtime's own exec";
/// StopContainer and RemoveContainer: who cleans up in which of them is the runtime's choice.
pub(crate) const REMOVED: &str = "container gone";
/// RunPodSandbox of a pod with a network of its own.
pub(crate) const BRIDGE_UP: &str = "RunPodSandbox, bridge";
/// The part of that which the network takes.
pub(crate) const NETWORK: &str = "of which the network";
/// StopPodSandbox of a pod with a network of its own.
pub(crate) const BRIDGE_DOWN: &str = "StopPodSandbox, bridge";
/// ListContainers among the crowd.
pub(crate) const LIST: &str = "ListContainers";
/// The same by `orlop ps -a`, start-up included.
pub(crate) const PROMPT: &str = "orlop ps -a";
/// The program that is both, stripped.
pub(crate) const BINARY: &str = "size of orlop";
/// Statistics of all pods of the crowd.
pub(crate) const STATS: &str = "ListPodSandboxStats";
/// What they take of the daemon's processor time.
pub(crate) const STATS_CPU: &str = "CPU of ListPodSandboxStats";
/// Metrics of all pods of the crowd.
pub(crate) const METRICS: &str = "ListPodSandboxMetrics";
/// From the daemon's start to its first answer, among the crowd.
pub(crate) const RESTART: &str = "daemon restart";
/// Memory that each pod adds.
pub(crate) const MEMORY: &str = "memory per pod";
/// Processor time of an idle node with the crowd.
pub(crate) const IDLE: &str = "idle CPU";
/// Processor time of a daemon whom a kubelet asks.
pub(crate) const POLLING: &str = "CPU while a kubelet polls";
/// Pods of the crowd that did not start.
pub(crate) const CROWD_FAILED: &str = "failed in parallel";
/// Pods with a network of their own that did not start.
pub(crate) const NETWORKED_FAILED: &str = "failed in parallel, bridge";
/// Addresses that two pods have.
pub(crate) const ADDRESSES_TWICE: &str = "addresses given twice";

/// What was measured, per row and subject.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<&'static str>,
    units: BTreeMap<&'static str, &'static str>,
    samples: BTreeMap<(&'static str, &'static str), Vec<f64>>,
}

impl Report {
    /// Adds a sample of a time.
    pub(crate) fn time(&mut self, row: &'static str, subject: &'static str, time: Duration) {
        self.number(row, "ms", subject, time.as_secs_f64() * 1000.0);
    }

    /// Adds a sample of anything.
    pub(crate) fn number(
        &mut self,
        row: &'static str,
        unit: &'static str,
        subject: &'static str,
        value: f64,
    ) {
        if self.units.insert(row, unit).is_none() {
            self.rows.push(row);
        }
        self.samples.entry((row, subject)).or_default().push(value);
    }

    /// The value in the middle.
    pub(crate) fn median(&self, row: &'static str, subject: &'static str) -> Option<f64> {
        quantile(self.samples.get(&(row, subject))?, 0.5)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        write!(f, "{:<27}", "median (p90)")?;
        let mut subjects = vec![ORLOP, CONTAINERD, ON_CRUN];
        subjects.retain(|subject| self.samples.keys().any(|(_, of)| of == subject));
        for subject in &subjects {
            write!(f, " {subject:>22}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "{row:<27}")?;
            for subject in &subjects {
                let cell = self
                    .samples
                    .get(&(*row, *subject))
                    .map_or(String::new(), |samples| {
                        let middle = quantile(samples, 0.5).unwrap_or(f64::NAN);
                        let high = quantile(samples, 0.9).unwrap_or(f64::NAN);
                        let spread = if samples.len() > 1 {
                            format!(" ({high:.2})")
                        } else {
                            String::new()
                        };
                        format!("{middle:.2}{spread} {}", self.units[row])
                    });
                write!(f, " {cell:>22}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn quantile(samples: &[f64], part: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part).round() as usize).copied()
}
