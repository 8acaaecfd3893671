//! The table of results, and the promises held against it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// From RunPodSandbox to the end of StartContainer.
pub(crate) const POD_UP: &str = "pod up";
/// Resident memory after all rounds.
pub(crate) const MEMORY: &str = "memory";

/// Medians of two runs of the same thing differ by less.
const NOISE: f64 = 1.05;

/// What was measured, per row and subject.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<(&'static str, &'static str)>,
    subjects: Vec<&'static str>,
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
        if !self.rows.contains(&(row, unit)) {
            self.rows.push((row, unit));
        }
        if !self.subjects.contains(&subject) {
            self.subjects.push(subject);
        }
        self.samples.entry((row, subject)).or_default().push(value);
    }

    /// The promises of SPECIFICATION.md that these results break. What is promised and was not
    /// measured is broken, too; cri-dockerd alone is only there where somebody has it.
    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let median = |row, subject| quantile(self.samples.get(&(row, subject))?, 0.5);
        let mut broken = Vec::new();
        let mut hold = |row, what: &str, limit: Option<f64>| match (median(row, "orlop"), limit) {
            (Some(value), Some(limit)) if value <= limit => {}
            (Some(value), Some(limit)) => {
                broken.push(format!("{row}: {value:.1}, {what} {limit:.1}"));
            }
            _ => broken.push(format!("{row}: was not measured")),
        };
        let plain = median(POD_UP, "plain API").map(|plain| plain * NOISE);
        hold(POD_UP, "the plain API with its noise takes", plain);
        if let Some(theirs) = median(POD_UP, "cri-dockerd") {
            hold(
                POD_UP,
                "a fifth less than cri-dockerd is",
                Some(theirs * 0.8),
            );
        }
        hold(MEMORY, "promised is less than", Some(20.0));
        broken
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<18}", "median (p10, p90)")?;
        for subject in &self.subjects {
            write!(f, " {subject:>28}")?;
        }
        writeln!(f)?;
        for (row, unit) in &self.rows {
            write!(f, "{row:<18}")?;
            for subject in &self.subjects {
                let cell = self
                    .samples
                    .get(&(*row, *subject))
                    .map_or(String::new(), |samples| {
                        let at = |part| quantile(samples, part).unwrap_or(f64::NAN);
                        format!("{:.1} ({:.1}, {:.1}) {unit}", at(0.5), at(0.1), at(0.9))
                    });
                write!(f, " {cell:>28}")?;
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
