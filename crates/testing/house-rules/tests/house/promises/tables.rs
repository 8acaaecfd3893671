//! Checks the tables that name tests, and the lists of tests that run, in this workspace.

use std::fs;

use super::check::Workspace;
use super::commands::Commands;
use super::ignored::not_started;
use super::not_here::NotHere;
use super::profiles::Profiles;
use super::programs::{Programs, Test};
use super::vm::Step;
use crate::cargo::Graph;
use crate::files::{read, sources};

#[test]
fn each_promise_names_checks_that_run() {
    let workspace = workspace();
    let text = read("SPECIFICATION.md");
    let mut mistakes = Vec::new();
    let mut count = 0;
    for row in rows(&text) {
        assert_eq!(row.head, ["promise", "value", "check"], "line {}", row.line);
        assert_ne!(row.cells[0], "", "line {}", row.line);
        count += 1;
        let wrong = workspace.mistakes(row.cells[2]).into_iter();
        mistakes.extend(wrong.map(|mistake| format!("line {}: {mistake}", row.line)));
    }
    assert!(count > 300, "only {count} rows");
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

#[test]
fn each_danger_names_a_test_that_runs_and_keys_that_exist() {
    let workspace = workspace();
    let text = read("docs/reference/security.md");
    let reference = read("docs/reference/configuration.md");
    let mut mistakes = Vec::new();
    let mut count = 0;
    for row in rows(&text) {
        for (head, cell) in row.head.iter().zip(&row.cells) {
            let wrong = match *head {
                "test" => workspace.mistakes(cell),
                "key" => missing_keys(&reference, cell),
                _ => continue,
            };
            count += 1;
            mistakes.extend(
                wrong
                    .iter()
                    .map(|mistake| format!("line {}: {mistake}", row.line)),
            );
        }
    }
    assert!(count > 100, "only {count} cells");
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    let missing = missing_keys(
        &reference,
        "`containers.log_rate`, `containers.no_such_key`",
    );
    assert_eq!(missing, ["no key containers.no_such_key"]);
}

#[test]
fn each_test_and_bench_is_run_by_some_command() {
    let programs = Programs::read();
    let lost: Vec<String> = programs.lost.iter().map(Test::identity).collect();
    assert!(
        lost.is_empty(),
        "tests of examples and benches, which nothing runs: {lost:#?}"
    );
    let graph = Graph::read(&[]);
    let not_started = not_started(&programs.tests, |package| sources_of(&graph, package));
    assert!(
        not_started.is_empty(),
        "ignored tests that no test starts: {not_started:#?}"
    );
    let mut benches = programs.benches;
    let nightly = long_benches();
    benches.retain(|bench| !nightly.contains(bench));
    benches.sort();
    assert_eq!(
        benches,
        Vec::<String>::new(),
        "benches that .ci/bench does not run"
    );
    let never_run = with_lists(programs.tests).never_run();
    assert!(
        never_run.is_empty(),
        "tests that nothing runs: {never_run:#?}"
    );
}

#[test]
fn each_word_that_selects_tests_selects_some() {
    let workspace = workspace();
    let tests = &workspace.tests;
    assert_eq!(workspace.profiles.idle_terms(tests), Vec::<String>::new());
    assert_eq!(workspace.not_here.idle_lines(tests), Vec::<String>::new());
    let copied = read(".ci/vm/tests");
    let steps = workspace.steps.iter();
    let idle: Vec<String> = steps
        .flat_map(|step| step.idle_parts(tests, &copied))
        .collect();
    assert_eq!(idle, Vec::<String>::new());
    assert!(workspace.steps.len() > 20);
}

#[test]
fn at_most_ten_tests_are_in_quarantine_and_make_test_leaves_them_out() {
    let workspace = workspace();
    let quarantine = workspace.profiles.of("quarantine").unwrap();
    let gate = workspace.profiles.of("ci").unwrap();
    let tests = workspace.tests.iter();
    let kept: Vec<&Test> = tests.filter(|test| quarantine.selects(test)).collect();
    assert!(kept.len() <= 10, "{} tests", kept.len());
    for test in kept {
        assert!(!gate.selects(test), "{} is in both", test.identity());
    }
}

fn workspace() -> Workspace {
    with_lists(Programs::read().tests)
}

fn with_lists(tests: Vec<Test>) -> Workspace {
    assert!(tests.len() > 3000, "only {} tests", tests.len());
    Workspace {
        tests,
        benches: long_benches(),
        profiles: Profiles::read(&read(".config/nextest.toml")).unwrap(),
        commands: Commands::read(&read("Makefile"), &read(".ci/stages")).unwrap(),
        not_here: NotHere::read(&read(".ci/not-here.txt")).unwrap(),
        steps: Step::read_all(&read(".ci/vm/guest/tests")).unwrap(),
    }
}

/// Returns the benches of the long form: the last list in the script.
fn long_benches() -> Vec<String> {
    let script = read(".ci/bench");
    let (_, rest) = script.rsplit_once("benches='").expect("a list of benches");
    let (list, _) = rest.split_once('\'').expect("the end of the list");
    list.split_whitespace().map(str::to_owned).collect()
}

/// Returns the texts of a package's source files.
fn sources_of(graph: &Graph, package: &str) -> Vec<String> {
    let mut packages = graph.house();
    let package = packages.find(|one| one.name == package);
    let sources = sources(package.expect("a package of the workspace").directory());
    let read = |path| fs::read_to_string(path).unwrap();
    sources.into_iter().map(read).collect()
}

/// A table row without the bars.
struct Row<'t> {
    line: usize,
    head: Vec<&'t str>,
    cells: Vec<&'t str>,
}

/// Returns the rows of all tables in a text; each has as many cells as its header.
fn rows(text: &str) -> Vec<Row<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut head = Vec::new();
    let mut rows = Vec::new();
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with('|'))
    {
        if lines
            .get(at + 1)
            .is_some_and(|next| next.starts_with("|---"))
        {
            head = cells(line);
        } else if !line.starts_with("|---") {
            let cells = cells(line);
            assert_eq!(cells.len(), head.len(), "line {}: {line}", at + 1);
            let head = head.clone();
            rows.push(Row {
                line: at + 1,
                head,
                cells,
            });
        }
    }
    rows
}

fn cells(row: &str) -> Vec<&str> {
    let inside = row.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    inside.unwrap_or(row).split('|').map(str::trim).collect()
}

/// Returns the keys in a cell that are missing in their section of the configuration reference.
fn missing_keys(reference: &str, cell: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for key in cell.split('`').skip(1).step_by(2) {
        let (section, name) = key.split_once('.').expect("section.key");
        let heading = format!("`[{section}]`");
        let mut sections = reference.split("\n## ");
        let section = sections.find(|text| text.starts_with(&heading));
        if section.is_none_or(|text| !text.contains(&format!("\n| `{name}` |"))) {
            missing.push(format!("no key {key}"));
        }
    }
    missing
}
