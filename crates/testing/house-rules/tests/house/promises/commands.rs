//! Commands that run tests: Makefile targets, and the nightly stages in `.ci/stages`.

use std::collections::BTreeMap;

/// Effect of a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// Runs the tests of a nextest profile.
    Profile(String),
    Vm,
    Benches,
    /// Runs something else, which reports its own results.
    Other,
}

#[derive(Debug, Default)]
struct Target {
    needs: Vec<String>,
    recipe: String,
}

/// Makefile targets, and those of the nightly run.
pub struct Commands {
    targets: BTreeMap<String, Target>,
    nightly: Vec<String>,
}

impl Commands {
    pub fn read(makefile: &str, stages: &str) -> Result<Self, String> {
        let targets = targets(makefile);
        let mut nightly = Vec::new();
        for line in stages.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(name), Some(command)) = (words.next(), words.next()) else {
                return Err(format!("a stage without a command: {line}"));
            };
            if command == "make" {
                let target = words.next().unwrap_or_default();
                if !targets.contains_key(target) {
                    return Err(format!("stage {name}: the Makefile has no target {target}"));
                }
                nightly.push(target.to_owned());
            }
        }
        Ok(Self { targets, nightly })
    }

    /// Returns what a target runs, if it belongs to a nightly stage.
    pub fn nightly(&self, target: &str) -> Result<Runs, String> {
        if !self.targets.contains_key(target) {
            return Err(format!("the Makefile has no target {target}"));
        }
        if !self.nightly.iter().any(|staged| self.needs(staged, target)) {
            return Err(format!("no stage of .ci/stages runs `make {target}`"));
        }
        Ok(self.runs(target))
    }

    /// Returns the targets of all stages.
    pub fn all_nightly(&self) -> &[String] {
        &self.nightly
    }

    /// Returns what a target runs.
    pub fn runs(&self, target: &str) -> Runs {
        let recipe = self.targets.get(target).map_or("", |target| &target.recipe);
        if recipe.contains(".ci/vm/tests") {
            return Runs::Vm;
        }
        if recipe.contains(".ci/bench") {
            return Runs::Benches;
        }
        for before in ["--profile ", "$(call profile,"] {
            if let Some((_, rest)) = recipe.split_once(before) {
                let name: String = rest
                    .chars()
                    .take_while(char::is_ascii_alphanumeric)
                    .collect();
                return Runs::Profile(name);
            }
        }
        Runs::Other
    }

    fn needs(&self, from: &str, target: &str) -> bool {
        let direct = self.targets.get(from).map_or(&[][..], |found| &found.needs);
        from == target || direct.iter().any(|next| self.needs(next, target))
    }
}

/// Parses the targets of a Makefile; a target with two conditional recipes has both.
fn targets(makefile: &str) -> BTreeMap<String, Target> {
    let mut targets: BTreeMap<String, Target> = BTreeMap::new();
    let mut open = String::new();
    for line in makefile.replace("\\\n", " ").lines() {
        if let Some(command) = line.strip_prefix('\t') {
            let recipe = &mut targets.entry(open.clone()).or_default().recipe;
            recipe.push_str(command);
            recipe.push('\n');
            continue;
        }
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let needs = rest.split('#').next().unwrap_or_default();
        // A variable assignment, for one target or for all.
        if name.is_empty() || !name.chars().all(is_name) || needs.contains('=') {
            continue;
        }
        name.clone_into(&mut open);
        let needs = needs.split_whitespace().map(str::to_owned);
        targets.entry(open.clone()).or_default().needs.extend(needs);
    }
    targets
}

pub const MAKEFILE: &str = "
CARGO ?= cargo
VARIABLE := a:b
.PHONY: test
static: ## programs
\t$(CARGO) build
test: deps
\t@$(RUN_TESTS) --profile ci
test-static: deps static ## tests; A=1 tries more
\t@A=1 \\
\t\t$(RUN_TESTS) $(call profile,static)
test-vm: ## in a VM
\t@.ci/vm/tests $(VM)
test-runc: deps
\t@$(RUN_TESTS) --profile runc
chaos: X = y
bench: deps
\t@.ci/bench $(BENCH)
test-package:
\t@.ci/packages
";

pub const STAGES: &str = "
# Stages.
static    make test-static A=1
vm        make test-vm
bench     make bench
packages  make test-package
fuzz      .ci/fuzz
";

#[test]
fn targets_and_stages_say_what_they_run() {
    let commands = Commands::read(MAKEFILE, STAGES).unwrap();
    let profile = |name: &str| Ok(Runs::Profile(name.to_owned()));
    for (target, runs) in [
        ("test-static", profile("static")),
        ("test-vm", Ok(Runs::Vm)),
        ("bench", Ok(Runs::Benches)),
        ("test-package", Ok(Runs::Other)),
        ("static", Ok(Runs::Other)),
        (
            "test-runc",
            Err("no stage of .ci/stages runs `make test-runc`".to_owned()),
        ),
        (
            "test-crun",
            Err("the Makefile has no target test-crun".to_owned()),
        ),
        ("chaos", Err("the Makefile has no target chaos".to_owned())),
    ] {
        assert_eq!(commands.nightly(target), runs, "{target}");
    }
    assert_eq!(commands.runs("test"), Runs::Profile("ci".to_owned()));
    let error = Commands::read(MAKEFILE, "crun  make test-crun").err();
    assert_eq!(
        error.unwrap_or_default(),
        "stage crun: the Makefile has no target test-crun"
    );
    assert!(Commands::read(MAKEFILE, "alone").is_err());
}
