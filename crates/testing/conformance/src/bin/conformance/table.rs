//! The table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The result of one program on one node.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Number of skipped tests by reason.
    pub(crate) skipped: BTreeMap<String, usize>,
    pub(crate) failed: Vec<String>,
    pub(crate) took: Duration,
}

/// One line.
pub(crate) struct Row {
    who: String,
    backend: String,
    handler: String,
    outcome: Outcome,
}

impl Row {
    pub(crate) fn new(who: &str, backend: &str, handler: &str, outcome: Outcome) -> Self {
        Self {
            who: who.to_owned(),
            backend: backend.to_owned(),
            handler: handler.to_owned(),
            outcome,
        }
    }
}

/// All lines, below what they are of.
pub(crate) struct Table {
    of: String,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(of: String) -> Self {
        Self {
            of,
            rows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Returns the number of failed tests in all rows.
    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().map(|row| row.outcome.failed.len()).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.of)?;
        writeln!(
            f,
            "| program | backend | runtime | passed | failed | skipped | seconds |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let Outcome {
                passed,
                skipped,
                failed,
                took,
            } = &row.outcome;
            let skipped: usize = skipped.values().sum();
            let (failed, took) = (failed.len(), took.as_secs());
            let Row {
                who,
                backend,
                handler,
                ..
            } = row;
            writeln!(
                f,
                "| {who} | {backend} | {handler} | {passed} | {failed} | {skipped} | {took} |"
            )?;
        }
        for row in &self.rows {
            for (why, count) in &row.outcome.skipped {
                let why = why.replace('\n', " ");
                writeln!(
                    f,
                    "\nskipped, {} on {}, {}: {count}: {why}",
                    row.who, row.backend, row.handler
                )?;
            }
            for name in &row.outcome.failed {
                writeln!(
                    f,
                    "\nfailed, {} on {}, {}: {name}",
                    row.who, row.backend, row.handler
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_what_failed() {
        let mut table = Table::new("orlop abc".to_owned());
        let outcome = Outcome {
            passed: 3,
            skipped: BTreeMap::from([("no AppArmor".to_owned(), 2)]),
            failed: vec!["a spec".to_owned()],
            took: Duration::from_millis(4900),
        };
        table.add(Row::new("critest", "native", "crun", outcome));
        assert_eq!(table.failed(), 1);
        let text = table.to_string();
        assert!(text.starts_with("orlop abc\n\n| program |"), "{text}");
        orlop_testkit::assert_contains!(text, "\n| critest | native | crun | 3 | 1 | 2 | 4 |\n");
        assert!(
            text.ends_with("\nfailed, critest on native, crun: a spec\n"),
            "{text}"
        );
    }
}
