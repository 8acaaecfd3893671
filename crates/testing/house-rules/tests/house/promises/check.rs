//! Checks that the tests in a table exist, and that the commands in the table run them.

use super::cell::Cell;
use super::commands::{Commands, Runs};
use super::names::select;
use super::not_here::{Line, NotHere};
use super::profiles::Profiles;
use super::programs::Test;
use super::vm::Step;

/// Everything that determines which tests a command runs.
pub struct Workspace {
    pub tests: Vec<Test>,
    pub benches: Vec<String>,
    pub profiles: Profiles,
    pub commands: Commands,
    pub not_here: NotHere,
    pub steps: Vec<Step>,
}

impl Workspace {
    /// Returns the mistakes in a check cell.
    pub fn mistakes(&self, cell: &str) -> Vec<String> {
        let cell = match Cell::read(cell) {
            Ok(cell) => cell,
            Err(error) => return vec![error],
        };
        let mut mistakes = Vec::new();
        let mut named = Vec::new();
        for name in &cell.names {
            match select(name, &self.tests) {
                Ok(tests) if tests.iter().all(|test| test.ignored) => {
                    mistakes.push(format!("`{name}` is ignored"));
                }
                Ok(tests) => named.push((name, tests)),
                Err(error) => mistakes.push(error),
            }
        }
        let mut run_by = Vec::new();
        for target in &cell.targets {
            match self.runs(target) {
                Ok(runs) => run_by.push((target, runs)),
                Err(error) => mistakes.push(error),
            }
        }
        for (name, tests) in &named {
            let runs = |test: &&Test| {
                let line = self.not_here.about(test);
                let variable = line.and_then(Line::variable);
                self.is_tested(test)
                    || run_by
                        .iter()
                        .any(|(target, _)| self.is_run_by(target, test))
                    || variable.is_some_and(|name| cell.variables.iter().any(|it| it == name))
            };
            if !tests.iter().any(runs) {
                let line = tests.iter().find_map(|test| self.not_here.about(test));
                let reason = line.map_or("no profile selects it", |line| &line.reason);
                mistakes.push(format!(
                    "neither `make test` nor a command named here runs `{name}`: {reason}"
                ));
            }
        }
        for (target, runs) in &run_by {
            let selects_tests = matches!(runs, Runs::Profile(_) | Runs::Vm);
            let mut tests = named.iter().flat_map(|(_, tests)| tests);
            let is_run = tests.any(|test| self.is_run_by(target, test));
            if selects_tests && !named.is_empty() && !is_run {
                mistakes.push(format!("`make {target}` runs none of the tests named here"));
            }
        }
        for bench in cell
            .benches
            .iter()
            .filter(|bench| !self.benches.contains(bench))
        {
            mistakes.push(format!("no [[bench]] {bench} that .ci/bench runs"));
        }
        mistakes
    }

    /// Returns the tests that nothing runs: neither `make test`, nor a nightly stage, nor a program in a variable.
    pub fn never_run(&self) -> Vec<String> {
        let stages = self.commands.all_nightly();
        let runs = |test: &Test| match self.not_here.about(test) {
            Some(line) => {
                let target = line.target().filter(|it| self.commands.nightly(it).is_ok());
                line.variable().is_some() || target.is_some_and(|it| self.is_run_by(it, test))
            }
            None => self.is_tested(test) || stages.iter().any(|it| self.is_run_by(it, test)),
        };
        let tests = self.tests.iter().filter(|test| !test.ignored);
        tests
            .filter(|test| !runs(test))
            .map(Test::identity)
            .collect()
    }

    fn runs(&self, target: &str) -> Result<Runs, String> {
        match target {
            "test" => Ok(self.commands.runs("test")),
            _ => self.commands.nightly(target),
        }
    }

    /// Returns whether `make test` runs it in the gate.
    fn is_tested(&self, test: &Test) -> bool {
        self.not_here.about(test).is_none() && self.is_run_by("test", test)
    }

    /// Returns whether a target runs it; a test that `make test` skips is run by the target in the skip list.
    fn is_run_by(&self, target: &str, test: &Test) -> bool {
        let line = self.not_here.about(test);
        let selects = match self.commands.runs(target) {
            Runs::Profile(name) => self
                .profiles
                .of(&name)
                .is_ok_and(|filter| filter.selects(test)),
            Runs::Vm => {
                let mut steps = self.steps.iter().filter(|step| step.is_long);
                steps.any(|step| step.selects(test))
            }
            Runs::Benches | Runs::Other => false,
        };
        selects && !test.ignored && line.is_none_or(|line| line.target() == Some(target))
    }
}

fn sample() -> Workspace {
    let profiles = "
        [profile.ci]
        default-filter = 'not binary(=docker)'
        [profile.static]
        default-filter = 'binary(=cri) & test(/^pods::/)'
    ";
    let not_here = "
clocks::*: the clock is the machine's (make test-vm)
it_was_stopped_late: Debian has no such program (ORLOP_TEST_LATE names one)
?shims::*: there may be no shim (make test-static)
";
    Workspace {
        tests: super::names::sample(),
        benches: vec!["pods".to_owned()],
        profiles: Profiles::read(profiles).unwrap(),
        commands: Commands::read(super::commands::MAKEFILE, super::commands::STAGES).unwrap(),
        not_here: NotHere::read(not_here).unwrap(),
        steps: Step::read_all(super::vm::SAMPLE).unwrap(),
    }
}

#[test]
fn rows_whose_checks_run_are_right() {
    let workspace = sample();
    for cell in [
        "`cri pods::*`, `clocks::*`, `make test-vm`",
        "`cri clocks::*` (`make test-vm`)",
        "`cri pods::a_pod_is_gone`, `make test-static`",
        "`make test-static`",
        "`make static`",
        "`make test-package`",
        "`make bench` (`pods`), `cri pods::*` (as in `make test`)",
        "`keeper life *_late`, where `ORLOP_TEST_LATE` names one",
        "`keeper *`",
    ] {
        assert_eq!(workspace.mistakes(cell), Vec::<String>::new(), "{cell}");
    }
}

#[test]
fn rows_whose_checks_do_not_run_are_told() {
    let mut workspace = sample();
    let ignored = workspace
        .tests
        .iter_mut()
        .find(|test| test.path.ends_with("it_holds"));
    ignored.unwrap().ignored = true;
    for (cell, mistake) in [
        ("`cri pods::a_pod_was`", "no test is `cri pods::a_pod_was`"),
        (
            "`run cgroup::tests::*`",
            "`run cgroup::tests::*` is ignored",
        ),
        (
            "`cri clocks::*`",
            "runs `cri clocks::*`: the clock is the machine's",
        ),
        (
            "`cri clocks::*` (`make test-static`)",
            "runs `cri clocks::*`",
        ),
        (
            "`docker pods::*`",
            "runs `docker pods::*`: no profile selects it",
        ),
        (
            "`cri pods::*` (`make test-vm`)",
            "`make test-vm` runs none of",
        ),
        (
            "`cri pods::*` (`make test-runc`)",
            "no stage of .ci/stages runs",
        ),
        (
            "`cri shims::*` (`make test-vm`)",
            "runs `cri shims::*`: there may be no shim",
        ),
        ("`make test-crun`", "has no target test-crun"),
        ("`keeper life::*`", "ORLOP_TEST_LATE names one"),
        (
            "`keeper life::*`, where `ORLOP_TEST_OTHER` names one",
            "runs `keeper life::*`",
        ),
        ("`make bench` (`streams`)", "no [[bench]] streams"),
        ("by hand", "names no test and no command"),
    ] {
        let mistakes = workspace.mistakes(cell);
        assert!(
            mistakes.iter().any(|it| it.contains(mistake)),
            "{cell}: {mistakes:?}"
        );
    }
}

#[test]
fn tests_that_nothing_runs_are_told() {
    let workspace = sample();
    let docker = "orlop::docker::pods::a_pod_is_ready";
    let shims = "orlop::cri::shims::pods::a_pod_lives";
    assert_eq!(workspace.never_run(), [shims, docker]);
}
