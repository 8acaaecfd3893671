//! Parser of `make test-vm`: the steps of `.ci/vm/guest/tests`, with programs copied by `.ci/vm/tests`.

use super::programs::Test;

/// A program that runs some of its tests in the VM.
#[derive(Debug)]
pub struct Step {
    /// `orlop-cri`: the crate's directory, and `unit` or the name of the test program.
    program: String,
    /// Substrings of test names; if empty, all tests run.
    filters: Vec<String>,
    skips: Vec<String>,
    /// Whether it runs only in the long form.
    pub is_long: bool,
}

impl Step {
    /// Parses the steps of a script. Those of the short form are in `if [ "$mode" = short ]`.
    pub fn read_all(script: &str) -> Result<Vec<Self>, String> {
        let mut steps = Vec::new();
        // For each open `if`: whether it tests for the short form, and whether its `else` was reached.
        let mut open: Vec<(bool, bool)> = Vec::new();
        for line in script.replace("\\\n", " ").lines().map(str::trim) {
            if line.starts_with("if ") && !line.ends_with("; fi") {
                open.push((
                    line.contains(r#""$mode" = "#) && line.contains("short ]"),
                    false,
                ));
            } else if line == "else" {
                open.last_mut().ok_or("`else` without `if`")?.1 = true;
            } else if line == "fi" {
                open.pop().ok_or("`fi` without `if`")?;
            } else if let Some(step) = line.strip_prefix("step ") {
                let is_long = !open.iter().any(|(short, is_else)| *short && !is_else);
                steps.push(Self::read(step, is_long)?);
            }
        }
        Ok(steps)
    }

    fn read(text: &str, is_long: bool) -> Result<Self, String> {
        let mut words = text.split_whitespace().skip(1);
        let program = words.find_map(|word| word.strip_prefix("./"));
        let program = program.ok_or_else(|| format!("no ./PROGRAM: step {text}"))?;
        let mut step = Self {
            program: program.to_owned(),
            filters: Vec::new(),
            skips: Vec::new(),
            is_long,
        };
        while let Some(word) = words.next() {
            if word == "--skip" {
                step.skips.extend(words.next().map(str::to_owned));
            } else if word.starts_with('$') {
                return Err(format!("{word} has no name of a test: step {text}"));
            } else if !word.starts_with("--") {
                step.filters.push(word.to_owned());
            }
        }
        Ok(step)
    }

    pub fn selects(&self, test: &Test) -> bool {
        let named = |part: &String| test.path.contains(part.as_str());
        self.has(test)
            && !test.ignored
            && (self.filters.is_empty() || self.filters.iter().any(named))
            && !self.skips.iter().any(named)
    }

    fn has(&self, test: &Test) -> bool {
        let directory = test.package.strip_prefix("orlop-").unwrap_or(&test.package);
        let name = test.program.as_deref().unwrap_or("unit");
        self.program == format!("{directory}-{name}")
    }

    /// Returns the parts that match no test, given the script that copies the programs.
    pub fn idle_parts(&self, tests: &[Test], copied: &str) -> Vec<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let mut idle = Vec::new();
        if !copied
            .split(|c| !is_word(c))
            .any(|word| word == self.program)
        {
            idle.push(format!("{} is not copied", self.program));
        }
        let parts = self.filters.iter().chain(&self.skips);
        let about = |part: &str| {
            tests
                .iter()
                .any(|test| self.has(test) && test.path.contains(part))
        };
        idle.extend(
            parts
                .map(String::as_str)
                .chain([""])
                .filter(|part| !about(part))
                .map(|part| format!("{} has no test `{part}`", self.program)),
        );
        idle
    }
}

pub const SAMPLE: &str = r#"
step() { # NAME PROGRAM [ARGUMENT]...
    shift
}
case $mode in selinux-*)
    if [ "$mode" = selinux-short ]; then
        step first ./orlop-cri shims::
    else
        step second env A=1 B=$C ./orlop-cri --test-threads=2 clocks:: \
            volumes::
    fi
    ;;
esac
if [ -s "$skips" ]; then echo "skipped"; fi
if [ "$mode" = short ]; then
    step quick ./keeper-life
else
    for driver in a b; do
        step long-$driver ./keeper-unit --skip read
    done
fi
step both ./run-unit cgroup::
"#;

#[test]
fn steps_say_which_tests_they_run() {
    let tests = super::names::sample();
    let steps = Step::read_all(SAMPLE).unwrap();
    let said: Vec<_> = steps
        .iter()
        .map(|step| {
            let selected = tests.iter().filter(|test| step.selects(test));
            (step.program.as_str(), step.is_long, selected.count())
        })
        .collect();
    let expected = [
        ("orlop-cri", false, 1),
        ("orlop-cri", true, 1),
        ("keeper-life", false, 1),
        ("keeper-unit", true, 1),
        ("run-unit", true, 1),
    ];
    assert_eq!(said, expected);
    let copied = "orlop-cri | keeper-life | run-units";
    let idle: Vec<_> = steps
        .iter()
        .flat_map(|step| step.idle_parts(&tests, copied))
        .collect();
    let expected = [
        "orlop-cri has no test `volumes::`",
        "keeper-unit is not copied",
        "keeper-unit has no test `read`",
        "run-unit is not copied",
    ];
    assert_eq!(idle, expected);
    assert!(Step::read_all("step x ./orlop-cri $tests").is_err());
    assert!(Step::read_all("step x cgroup").is_err());
}
