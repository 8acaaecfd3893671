//! The table of results, and the promises held against it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// From RunPodSandbox to the end of StartContainer.
pub(crate) const POD_UP: &str = "pod up";
/// ListContainers among the crowd.
pub(crate) const LIST: &str = "ListContainers";
/// Statistics of all pods of the crowd.
pub(crate) const STATS: &str = "ListPodSandboxStats";
/// Metrics of all pods of the crowd.
pub(crate) const METRICS: &str = "ListPodSandboxMetrics";
/// From the daemon's start to its first answer, among the crowd.
pub(crate) const RESTART: &str = "daemon restart";
/// Memory that each pod adds.
pub(crate) const MEMORY: &str = "memory per pod";
/// Processor time of an idle node with the crowd.
pub(crate) const IDLE: &str = "idle CPU";
/// Pods of the crowd that did not start.
pub(crate) const CROWD_FAILED: &str = "failed in parallel";

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

    /// The promises of SPECIFICATION.md that these results break.
    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut hold = |row: &'static str, limit: Option<f64>| {
            if let (Some(value), Some(limit)) = (self.median(row, "orlop"), limit)
                && value > limit
            {
                broken.push(format!("{row}: {value:.2}, promised at most {limit:.2}"));
            }
        };
        hold(
            POD_UP,
            self.median(POD_UP, "containerd").map(|theirs| theirs / 3.0),
        );
        hold(LIST, Some(5.0));
        hold(STATS, Some(10.0));
        hold(METRICS, Some(15.0));
        hold(RESTART, Some(1000.0));
        hold(MEMORY, Some(300.0));
        hold(IDLE, Some(0.2));
        hold(CROWD_FAILED, Some(0.0));
        broken
    }

    /// The middle of what was measured.
    pub(crate) fn median(&self, row: &'static str, subject: &'static str) -> Option<f64> {
        quantile(self.samples.get(&(row, subject))?, 0.5)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "{:<26} {:>24} {:>24}",
            "median (p90)", "orlop", "containerd"
        )?;
        for row in &self.rows {
            write!(f, "{row:<26}")?;
            for subject in ["orlop", "containerd"] {
                let cell = self
                    .samples
                    .get(&(*row, subject))
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
                write!(f, " {cell:>24}")?;
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
