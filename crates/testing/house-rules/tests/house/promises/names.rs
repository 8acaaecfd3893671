//! Names of tests in documents.
//!
//! A name is `[PACKAGE] [PROGRAM] PATH`: `image it layers::*`, `cri pods::a_pod_is_ready`, `daemon_unit`.
//!
//! - PACKAGE is a crate, with or without `orlop-` before it; PROGRAM is a test program (a file or folder of
//!   `tests/`).
//! - PATH is a test's modules and its name, relative to the test program unless that is included. Alone, it may be the
//!   end of a path. `*` matches anything. The name of a program selects all its tests.
//!
//! A name without `*` selects one test. With `*`, all selected tests must share the same parent module: for two modules
//! of one name, the package, the program or more of the path is needed.

use std::collections::BTreeSet;
use std::fmt;

use super::programs::Test;

/// Returns the tests that a name selects, or why there are none.
pub fn select<'t>(name: &str, tests: &'t [Test]) -> Result<Vec<&'t Test>, String> {
    let words: Vec<&str> = name.split(' ').collect();
    let Some((path, scope)) = words.split_last() else {
        return Err("an empty name".to_owned());
    };
    if scope.len() > 2 || words.contains(&"") || (*path == "*" && scope.is_empty()) {
        return Err(format!("`{name}` is not [PACKAGE] [PROGRAM] PATH"));
    }
    let mut found: Vec<(Before, &Test)> = Vec::new();
    for test in tests.iter().filter(|test| is_in(test, scope)) {
        if test.program.as_deref() == Some(*path) {
            found.push((Before::whole(test, None), test));
        } else {
            let before = before_end(test, scope, path);
            found.extend(before.map(|before| (before, test)));
        }
    }
    let places: BTreeSet<String> = found.iter().map(|(before, _)| before.to_string()).collect();
    let is_program = found
        .iter()
        .any(|(_, test)| test.program.as_deref() == Some(*path));
    let is_exact = !path.contains('*') && !is_program;
    match (found.len(), places.len()) {
        (0, _) => Err(format!("no test is `{name}`{}", alike(path, tests))),
        (count, 1) if count == 1 || !is_exact => {
            Ok(found.into_iter().map(|(_, test)| test).collect())
        }
        _ => Err(format!(
            "`{name}` may be in any of {places:?}: name more of it"
        )),
    }
}

/// Returns the new path of a test that has moved.
fn alike(path: &str, tests: &[Test]) -> String {
    let last = path.rsplit("::").next().unwrap_or(path);
    let name = |test: &Test| {
        test.path
            .rsplit("::")
            .next()
            .is_some_and(|name| is_like(last, name))
    };
    let found = tests.iter().find(|test| last.len() > 8 && name(test));
    found.map_or(String::new(), |test| {
        format!("; there is {}", test.identity())
    })
}

fn is_in(test: &Test, scope: &[&str]) -> bool {
    let is_package =
        |word: &str| test.package.strip_prefix("orlop-") == Some(word) || test.package == word;
    let is_program = |word: &str| test.program.as_deref() == Some(word);
    match scope {
        [] => true,
        [word] => is_package(word) || is_program(word),
        [package, program, ..] => is_package(package) && is_program(program),
    }
}

/// The part of a test's identity before the end of the path that a name gives.
struct Before {
    package: String,
    program: Option<String>,
    modules: String,
}

impl Before {
    fn whole(test: &Test, program: Option<&str>) -> Self {
        Self {
            package: test.package.clone(),
            program: program.map(str::to_owned),
            modules: String::new(),
        }
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.package)?;
        if let Some(program) = &self.program {
            write!(f, " {program}")?;
        }
        match self.modules.as_str() {
            "" => Ok(()),
            modules => write!(f, " {modules}"),
        }
    }
}

/// Returns the part before the match: empty after a package or a program, else the shortest possible.
fn before_end(test: &Test, scope: &[&str], pattern: &str) -> Option<Before> {
    let program = test.program.as_deref();
    let names_program = scope.last().copied() == program;
    let whole = match program {
        Some(program) if !names_program => format!("{program}::{}", test.path),
        _ => test.path.clone(),
    };
    let mut start = 0;
    while !is_like(pattern, &whole[start..]) {
        if !scope.is_empty() {
            return None;
        }
        start += whole[start..].find("::")? + 2;
    }
    let mut before = Before::whole(test, program.filter(|_| names_program));
    whole[..start].clone_into(&mut before.modules);
    Some(before)
}

/// Returns whether a text matches a pattern, in which `*` matches anything.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

pub fn sample() -> Vec<Test> {
    let rows = [
        ("orlop", Some("cri"), "pods::a_pod_is_ready"),
        ("orlop", Some("cri"), "pods::a_pod_is_gone"),
        ("orlop", Some("cri"), "shims::pods::a_pod_lives"),
        ("orlop", Some("cri"), "clocks::a_clock_is_set"),
        ("orlop", Some("docker"), "pods::a_pod_is_ready"),
        ("orlop", Some("daemon_unit"), "it_lives"),
        ("orlop-keeper", Some("life"), "it_was_stopped_late"),
        ("orlop-keeper", None, "log::tests::a_line_is_written"),
        ("orlop-engine", None, "log::tests::a_line_is_read"),
        ("orlop-run", None, "cgroup::tests::it_holds"),
    ];
    let tests = rows.map(|(package, program, path)| Test {
        package: package.to_owned(),
        binary: program.unwrap_or(package).to_owned(),
        program: program.map(str::to_owned),
        path: path.to_owned(),
        ignored: false,
    });
    tests.into()
}

#[test]
fn names_stand_for_tests() {
    let tests = sample();
    for (name, count) in [
        ("cri pods::a_pod_is_ready", 1),
        ("orlop cri pods::*", 2),
        ("cri::pods::*", 2),
        ("cri *", 4),
        ("daemon_unit", 1),
        ("docker", 1),
        ("keeper life::*_stopped_*", 1),
        ("keeper life *_stopped_*", 1),
        ("orlop-engine *", 1),
        ("run cgroup::tests::*", 1),
        ("a_line_is_read", 1),
        ("shims::*", 1),
        // Does not match `shims::pods`.
        ("cri pods::*", 2),
    ] {
        let selected = select(name, &tests).map(|tests| tests.len());
        assert_eq!(selected, Ok(count), "{name}");
    }
}

#[test]
fn names_that_stand_for_none_or_for_several_are_errors() {
    let tests = sample();
    for (name, part) in [
        ("cri pods::a_pod_is_away", "no test is"),
        (
            "cri pods::a_pod_lives",
            "there is orlop::cri::shims::pods::a_pod_lives",
        ),
        ("cri a_pod_is_gone", "no test is"),
        ("cri volumes::*", "no test is"),
        ("cri ready", "no test is"),
        ("image pods::a_pod_is_ready", "no test is"),
        ("pods::a_pod_is_ready", "may be in any of"),
        ("pods::a_pod_*", "may be in any of"),
        ("log::tests::*", "may be in any of"),
        ("a_pod_is_ready", "may be in any of"),
        ("*", "is not"),
        ("", "is not"),
        ("units of cri", "no test is"),
        ("the orlop cri pods::*", "is not"),
    ] {
        let error = select(name, &tests).expect_err(name);
        assert!(error.contains(part), "{name}: {error}");
    }
}
