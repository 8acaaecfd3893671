//! Tests that are skipped, or may be, in the gate: `.ci/not-here.txt`.

use super::names::is_like;
use super::programs::Test;

/// A line of the list.
#[derive(Debug)]
pub struct Line {
    pattern: String,
    pub reason: String,
}

impl Line {
    /// Returns the Makefile target in the reason, which runs the test: `… (make test-vm)`.
    pub fn target(&self) -> Option<&str> {
        let (_, rest) = self.reason.split_once("make ")?;
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-');
        Some(&rest[..end.unwrap_or(rest.len())])
    }

    /// Returns the variable for a program that Debian lacks: `… (ORLOP_TEST_CRIO)`.
    pub fn variable(&self) -> Option<&str> {
        let mut words = self
            .reason
            .split(|c: char| !c.is_ascii_uppercase() && c != '_');
        words.find(|word| word.starts_with("ORLOP_TEST_"))
    }
}

/// All lines.
pub struct NotHere(Vec<Line>);

impl NotHere {
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines: Vec<Line> = Vec::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (pattern, reason) = line
                .split_once(": ")
                .ok_or_else(|| format!("not TEST: REASON: {line}"))?;
            let reason = match (reason, lines.last()) {
                ("the same", Some(before)) => before.reason.clone(),
                ("the same", None) => return Err(format!("the same as nothing: {line}")),
                (reason, _) => reason.to_owned(),
            };
            let pattern = pattern.trim_start_matches('?').to_owned();
            let line = Line { pattern, reason };
            if line.target().is_none() && line.variable().is_none() {
                let pattern = line.pattern;
                return Err(format!(
                    "{pattern}: names neither `make TARGET` nor ORLOP_TEST_…"
                ));
            }
            lines.push(line);
        }
        Ok(Self(lines))
    }

    /// Returns the line for a test that does not run, or may not.
    pub fn about(&self, test: &Test) -> Option<&Line> {
        self.0
            .iter()
            .find(|line| is_like(&line.pattern, &test.path))
    }

    /// Returns lines that match no test, or tests of more than one program.
    pub fn idle_lines(&self, tests: &[Test]) -> Vec<String> {
        let mut idle = Vec::new();
        for line in &self.0 {
            let about = tests
                .iter()
                .filter(|test| is_like(&line.pattern, &test.path));
            let mut programs: Vec<_> = about.map(|test| (&test.package, &test.binary)).collect();
            programs.dedup();
            match programs.len() {
                0 => idle.push(format!("no test is {}", line.pattern)),
                1 => {}
                _ => idle.push(format!("{} is in {programs:?}", line.pattern)),
            }
        }
        idle
    }
}

#[test]
fn lines_are_about_the_tests_of_one_program() {
    let tests = super::names::sample();
    let list = "# Tests.\n\n?shims::*: no shim (make test-vm)\n\
        clocks::*: no clock (ORLOP_TEST_CLOCK names one)\nit_lives: the same\n";
    let list = NotHere::read(list).unwrap();
    let about: Vec<_> = tests
        .iter()
        .filter_map(|test| list.about(test))
        .map(|line| (line.target(), line.variable()))
        .collect();
    let clock = (None, Some("ORLOP_TEST_CLOCK"));
    assert_eq!(about, [(Some("test-vm"), None), clock, clock]);
    assert_eq!(list.idle_lines(&tests), Vec::<String>::new());
    for (line, part) in [
        (
            "?a_pod_lives: without its modules (make test-vm)",
            "no test is a_pod_lives",
        ),
        (
            "pods::a_pod_is_ready: in two programs (make test-vm)",
            "is in",
        ),
    ] {
        let idle = NotHere::read(line).unwrap().idle_lines(&tests);
        assert!(idle[0].contains(part), "{idle:?}");
    }
    for wrong in ["clocks::*", "clocks::*: the same", "clocks::*: no clock"] {
        assert!(NotHere::read(wrong).is_err(), "{wrong}");
    }
}
