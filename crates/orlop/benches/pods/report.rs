//! The table of results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Our own, on our own runtime.
pub(crate) const ORLOP: &str = "orlop";
/// Our own on the reference's runtime.
pub(crate) const ON_RUNC: &str = "orlop on runc";
/// The reference, on runc.
pub(crate) const CONTAINERD: &str = "containerd on runc";
/// The kernel alone.
pub(crate) const FLOOR: &str = "floor";

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
        let mut subjects = vec![ORLOP, ON_RUNC, CONTAINERD, FLOOR];
        for (_, of) in self.samples.keys() {
            if !subjects.contains(of) {
                subjects.push(of);
            }
        }
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
