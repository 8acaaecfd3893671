//! The table of results, and the promises held against it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::runtime::Times;

/// Promised: so many times as fast as the fastest of the others. At a pace, since that is what one who starts a
/// container sees: back to back the kernel's locks of control groups are still warm from the one before, and
/// what the others wait for otherwise is not seen.
const PROMISES: [(&str, &str, f64); 4] = [
    ("at a pace", WHOLE, 3.0),
    ("at a pace", COMMAND, 5.0),
    ("back to back", WHOLE, 2.0),
    ("back to back", COMMAND, 2.0),
];
/// How much worse the few rounds of an unoptimised build may be.
const LEEWAY: f64 = 4.0;
const OURS: &str = "orlop-run";
const WHOLE: &str = "create + start + delete";
const COMMAND: &str = "exec";
const ROWS: [&str; 5] = ["create", "start", "delete", WHOLE, COMMAND];
const MANNERS: [&str; 2] = ["back to back", "at a pace"];

/// What was measured, by manner, row and runtime.
#[derive(Default)]
pub(crate) struct Report {
    runtimes: Vec<String>,
    samples: BTreeMap<(&'static str, &'static str, String), Vec<f64>>,
}

impl Report {
    /// Adds one container's life.
    pub(crate) fn life(&mut self, manner: &'static str, runtime: &str, times: Times) {
        let Times {
            create,
            start,
            delete,
        } = times;
        self.add(manner, "create", runtime, create);
        self.add(manner, "start", runtime, start);
        self.add(manner, "delete", runtime, delete);
        self.add(manner, WHOLE, runtime, create + start + delete);
    }

    /// Adds one command.
    pub(crate) fn exec(&mut self, manner: &'static str, runtime: &str, time: Duration) {
        self.add(manner, COMMAND, runtime, time);
    }

    fn add(&mut self, manner: &'static str, row: &'static str, runtime: &str, time: Duration) {
        if self.runtimes.iter().all(|known| known != runtime) {
            self.runtimes.push(runtime.to_owned());
        }
        let samples = self.samples.entry((manner, row, runtime.to_owned()));
        samples.or_default().push(time.as_secs_f64() * 1000.0);
    }

    fn median(&self, manner: &'static str, row: &'static str, runtime: &str) -> Option<f64> {
        let samples = self.samples.get(&(manner, row, runtime.to_owned()))?;
        let mut samples = samples.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }

    /// How many times as fast as the fastest of the others.
    fn times(&self, manner: &'static str, row: &'static str) -> Option<f64> {
        let ours = self.median(manner, row, OURS)?;
        let others = self.runtimes.iter().filter(|runtime| *runtime != OURS);
        let fastest = others
            .filter_map(|runtime| self.median(manner, row, runtime))
            .min_by(f64::total_cmp)?;
        Some(fastest / ours)
    }

    /// The promises of SPECIFICATION.md that these results break.
    pub(crate) fn broken_promises(&self, short: bool) -> Vec<String> {
        let leeway = if short { LEEWAY } else { 1.0 };
        let mut broken = Vec::new();
        for (manner, row, promised) in PROMISES {
            let promised = promised / leeway;
            match self.times(manner, row) {
                Some(times) if times >= promised => {}
                Some(times) => broken.push(format!(
                    "{row}, {manner}: {times:.1} times as fast as the fastest of the others, \
                     promised {promised:.1}"
                )),
                None => broken.push(format!("{row}, {manner}: nothing to compare with")),
            }
        }
        broken
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for manner in MANNERS {
            write!(f, "\n{:<26}", format!("{manner}, p50 in ms"))?;
            for runtime in &self.runtimes {
                write!(f, "{runtime:>20}")?;
            }
            writeln!(f, "{:>20}", "times as fast")?;
            for row in ROWS {
                write!(f, "{row:<26}")?;
                for runtime in &self.runtimes {
                    match self.median(manner, row, runtime) {
                        Some(median) => write!(f, "{median:>20.2}")?,
                        None => write!(f, "{:>20}", "-")?,
                    }
                }
                match self.times(manner, row) {
                    Some(times) => writeln!(f, "{times:>20.1}")?,
                    None => writeln!(f)?,
                }
            }
        }
        Ok(())
    }
}
