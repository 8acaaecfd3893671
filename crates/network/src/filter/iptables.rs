//! Rule changes with the `iptables` programs: `iptables-save` reads, `iptables-restore` writes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::error::FilterError;
use super::rule::{Family, Rule, Step, Table, Target};

/// Timeout for the lock that the programs share.
const LOCK_WAIT_SECONDS: &str = "5";

pub(super) fn apply(
    dir: &Path,
    family: Family,
    table: Table,
    steps: &[Step],
) -> Result<(), FilterError> {
    let looks = steps.iter().any(|step| !matches!(step, Step::Append(..)));
    let saved = if looks {
        save(dir, family, table)?
    } else {
        String::new()
    };
    let plan = plan(table, steps, &saved)?;
    if plan.is_empty() {
        return Ok(());
    }
    let program = dir.join(format!("{}-restore", name(family)));
    let child = Command::new(&program)
        .args(["--noflush", "--wait", LOCK_WAIT_SECONDS])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = orlop_pool::started(child).map_err(|error| unstarted(error, &program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program stops reading early, its exit status shows that.
        let _ = stdin.write_all(plan.as_bytes());
    }
    finished(child.wait_with_output(), &program).map(drop)
}

pub(super) fn chain_exists(
    dir: &Path,
    family: Family,
    table: Table,
    chain: &str,
) -> Result<bool, FilterError> {
    Ok(has_chain(&save(dir, family, table)?, chain))
}

/// Builds the input of `iptables-restore` for the steps; empty if there is nothing to do.
fn plan(table: Table, steps: &[Step], saved: &str) -> Result<String, FilterError> {
    let mut chains = Vec::new();
    let mut lines = Vec::new();
    let mut removed = Vec::new();
    for step in steps {
        match step {
            Step::NewChain(chain) if has_chain(saved, chain) => return Err(FilterError::Exists),
            // Declaring an existing chain would empty it.
            Step::Chain(chain) if has_chain(saved, chain) => {}
            Step::NewChain(chain) | Step::Chain(chain) => {
                chains.push(format!(":{chain} - [0:0]"));
            }
            Step::Append(chain, rule) => lines.push(format!("-A {chain} {}", rule.to_text())),
            Step::OnlyRule(chain, rule) => {
                if rules_of(saved, chain).next().is_none() {
                    lines.push(format!("-A {chain} {}", rule.to_text()));
                }
            }
            Step::JumpOnce { chain, rule, first } => {
                lines.extend(jump_once(saved, chain, rule, *first));
            }
            Step::Reach { chain, rule } => lines.extend(jump_once(saved, chain, rule, true)),
            Step::RemoveChain { chain, jumps_in } => {
                for from in jumps_in {
                    let jumps = rules_of(saved, from).filter(|line| jumps_to(line, chain));
                    lines.extend(jumps.map(|line| line.replacen("-A", "-D", 1)));
                }
                if has_chain(saved, chain) {
                    lines.push(format!("-F {chain}"));
                    removed.push(format!("-X {chain}"));
                }
            }
            Step::RemoveAbout { chain, address } => {
                let about = |line: &&str| {
                    let mut words = line.split(' ');
                    words.any(|word| word.split('/').next() == Some(&address.to_string()))
                };
                let found = rules_of(saved, chain).filter(about);
                lines.extend(found.map(|line| line.replacen("-A", "-D", 1)));
            }
        }
    }
    lines.extend(removed);
    if chains.is_empty() && lines.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(
        "*{}\n{}\n{}\nCOMMIT\n",
        table.name(),
        chains.join("\n"),
        lines.join("\n")
    ))
}

/// Returns the line that adds a jump, unless the chain already jumps to the same target.
fn jump_once(saved: &str, chain: &str, rule: &Rule, first: bool) -> Option<String> {
    let Target::Jump(target) = &rule.target else {
        return None;
    };
    let is_there = rules_of(saved, chain).any(|line| jumps_to(line, target));
    let verb = if first { "-I" } else { "-A" };
    (!is_there).then(|| format!("{verb} {chain} {}", rule.to_text()))
}

fn save(dir: &Path, family: Family, table: Table) -> Result<String, FilterError> {
    let program = dir.join(format!("{}-save", name(family)));
    let output = Command::new(&program)
        .args(["-t", table.name()])
        .stdin(Stdio::null())
        .output();
    let output = orlop_pool::started(output).map_err(|error| unstarted(error, &program))?;
    let output = finished(Ok(output), &program)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn unstarted(source: std::io::Error, program: &Path) -> FilterError {
    if orlop_pool::NoThread::is_cause(&source) {
        let program = program.to_owned();
        return FilterError::Unstarted { program, source };
    }
    FilterError::Failed(format!("cannot start {}: {source}", program.display()))
}

fn finished(output: std::io::Result<Output>, program: &Path) -> Result<Output, FilterError> {
    let program = program.display();
    let output = output.map_err(|error| FilterError::Failed(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = format!("{program}: {}", stderr.trim());
    // The exit status and the message for a held lock.
    if output.status.code() == Some(4) || stderr.contains("xtables lock") {
        return Err(FilterError::Locked(message));
    }
    Err(FilterError::Failed(message))
}

fn has_chain(saved: &str, chain: &str) -> bool {
    saved.lines().any(|line| {
        line.strip_prefix(':')
            .and_then(|rest| rest.split(' ').next())
            == Some(chain)
    })
}

fn rules_of<'a>(saved: &'a str, chain: &str) -> impl Iterator<Item = &'a str> {
    let prefix = format!("-A {chain} ");
    saved.lines().filter(move |line| line.starts_with(&prefix))
}

fn jumps_to(line: &str, chain: &str) -> bool {
    line.ends_with(&format!(" -j {chain}")) || line.contains(&format!(" -j {chain} "))
}

fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Match;

    const SAVED: &str = r#"*nat
:POSTROUTING ACCEPT [0:0]
:CNI-A - [0:0]
-A POSTROUTING -s 10.0.0.2/32 -m comment --comment "name: \"n\"" -j CNI-A
-A POSTROUTING -s 10.0.0.20/32 -j CNI-AB
COMMIT
"#;

    #[test]
    fn a_program_that_cannot_be_started_for_want_of_files_is_told_with_the_way_out() {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let dir = tempfile::tempdir().unwrap();
        let before = getrlimit(Resource::Nofile);
        let mut few = before;
        few.current = Some(3);
        setrlimit(Resource::Nofile, few).unwrap();
        let looked = chain_exists(dir.path(), Family::V4, Table::Nat, "CNI-A");
        let rule = Rule {
            matches: Vec::new(),
            target: Target::Accept,
        };
        let changed = apply(
            dir.path(),
            Family::V4,
            Table::Nat,
            &[Step::Append("CNI-A".into(), rule)],
        );
        setrlimit(Resource::Nofile, before).unwrap();
        for error in [looked.map(drop).unwrap_err(), changed.unwrap_err()] {
            let error = crate::error::NativeError::from(error);
            assert!(orlop_pool::NoThread::is_cause(&error), "{error:?}");
        }
        let missing = chain_exists(dir.path(), Family::V4, Table::Nat, "CNI-A").unwrap_err();
        let missing = crate::error::NativeError::from(missing);
        assert!(!orlop_pool::NoThread::is_cause(&missing), "{missing:?}");
    }

    #[test]
    fn a_chain_goes_with_the_jumps_to_it_and_no_other() {
        let step = Step::RemoveChain {
            chain: "CNI-A".into(),
            jumps_in: vec!["POSTROUTING".into()],
        };
        let plan = plan(Table::Nat, &[step], SAVED).unwrap();
        assert!(plan.contains("-D POSTROUTING -s 10.0.0.2/32"), "{plan}");
        assert!(!plan.contains("10.0.0.20"), "{plan}");
        assert!(plan.contains("-F CNI-A\n-X CNI-A\nCOMMIT"), "{plan}");
        let gone = Step::RemoveChain {
            chain: "CNI-Z".into(),
            jumps_in: vec!["POSTROUTING".into()],
        };
        assert_eq!(super::plan(Table::Nat, &[gone], SAVED).unwrap(), "");
    }

    #[test]
    fn rules_about_an_address_are_not_those_about_a_longer_one() {
        let step = Step::RemoveAbout {
            chain: "POSTROUTING".into(),
            address: "10.0.0.2".parse().unwrap(),
        };
        let plan = plan(Table::Nat, &[step], SAVED).unwrap();
        assert_eq!(plan.matches("-D ").count(), 1, "{plan}");
    }

    #[test]
    fn jumps_are_made_once() {
        let jump = |target: &str| Step::JumpOnce {
            chain: "POSTROUTING".into(),
            rule: Rule::new([Match::Marked(0x2000)], Target::Jump(target.into())),
            first: true,
        };
        assert_eq!(plan(Table::Nat, &[jump("CNI-A")], SAVED).unwrap(), "");
        let plan = plan(Table::Nat, &[jump("CNI-C")], SAVED).unwrap();
        assert!(
            plan.contains("-I POSTROUTING -m mark --mark 0x2000/0x2000 -j CNI-C"),
            "{plan}"
        );
    }

    #[test]
    fn the_legacy_programs_take_it_all() {
        let program = Path::new("/usr/sbin/xtables-legacy-multi");
        if !program.exists() {
            orlop_testkit::skip!("needs the package iptables with its legacy programs");
        }
        crate::netns::leave_for_new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "iptables-save",
            "iptables-restore",
            "ip6tables-save",
            "ip6tables-restore",
        ] {
            std::os::unix::fs::symlink(program, dir.path().join(name)).unwrap();
        }
        for (family, own) in [(Family::V4, "10.0.0.2/32"), (Family::V6, "fd00::2/128")] {
            let own: crate::Cidr = own.parse().unwrap();
            let port = Match::Port(crate::Protocol::Sctp, 9);
            let comment = Match::Comment("a \"quoted\" word".into());
            let target = Target::DestinationNat(own.address(), 80);
            let make = [
                Step::NewChain("CNI-A".into()),
                Step::Append("CNI-A".into(), Rule::new([port, comment], target)),
                Step::JumpOnce {
                    chain: "OUTPUT".into(),
                    rule: Rule::new([Match::ToThisNode], Target::Jump("CNI-A".into())),
                    first: true,
                },
            ];
            apply(dir.path(), family, Table::Nat, &make).unwrap();
            assert!(chain_exists(dir.path(), family, Table::Nat, "CNI-A").unwrap());
            let again = apply(dir.path(), family, Table::Nat, &make);
            assert!(matches!(again, Err(FilterError::Exists)), "{again:?}");

            let remove = [Step::RemoveChain {
                chain: "CNI-A".into(),
                jumps_in: vec!["OUTPUT".into()],
            }];
            apply(dir.path(), family, Table::Nat, &remove).unwrap();
            apply(dir.path(), family, Table::Nat, &remove).unwrap();
            let left = save(dir.path(), family, Table::Nat).unwrap();
            assert!(!left.contains("CNI-A"), "{left}");
        }
    }
}
