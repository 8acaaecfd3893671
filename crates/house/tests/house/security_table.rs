//! Tables that name tests: `docs/security.md` (what strangers can make the node spend, and the keys of
//! that) and `SPECIFICATION.md`. What they name exists.

use std::fs;
use std::path::{Path, PathBuf};

const TITLE: &str = "## What a stranger can make the node spend";

#[test]
fn every_key_and_test_of_the_table_of_spending_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(top.join("docs/security.md")).unwrap();
    let (_, rest) = text.split_once(TITLE).expect("the table has its title");
    let rows = rest
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let keys = fs::read_to_string(top.join("docs/configuration.md")).unwrap();
    let sources = sources(&top.join("crates"));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [stranger, resource, limit, key, test] = cells[..] else {
            panic!("not five cells: {row}");
        };
        assert!(![stranger, resource, limit].contains(&""), "{row}");
        for key in quoted(key) {
            assert!(has_key(&keys, key), "no key {key}: {row}");
        }
        let tests: Vec<&str> = quoted(test).collect();
        assert_eq!(tests.len(), 1, "{row}");
        assert!(has_test(&sources, tests[0]), "no test {}: {row}", tests[0]);
        count += 1;
    }
    assert!(count >= 10, "{count} rows");
    assert!(!has_key(&keys, "containers.no_such_key"));
    assert!(!has_test(&sources, "cri spending::no_such_test"));
}

#[test]
fn every_test_that_the_specification_names_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(top.join("SPECIFICATION.md")).unwrap();
    let sources = sources(&top.join("crates"));
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let named: Vec<&str> = rows
        .flat_map(quoted)
        .filter(|word| word.contains("::") && !word.contains('*'))
        .collect();
    assert!(named.len() >= 90, "only {}", named.len());
    let missing: Vec<_> = named
        .iter()
        .filter(|test| !has_test(&sources, test))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// What stands between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether the reference of the configuration has the key in its section.
fn has_key(reference: &str, key: &str) -> bool {
    let (section, name) = key.split_once('.').expect("section.key");
    let heading = format!("## `[{section}]`");
    let within = reference.split("\n## ").find(|text| {
        let title = text.lines().next().unwrap_or_default();
        format!("## {title}").starts_with(&heading)
    });
    within.is_some_and(|text| text.contains(&format!("\n| `{name}` |")))
}

/// Whether a file has this test whose path has the modules' names.
fn has_test(sources: &[(PathBuf, String)], test: &str) -> bool {
    let words: Vec<&str> = test
        .split([' ', ':'])
        .filter(|word| !word.is_empty())
        .collect();
    let Some((name, modules)) = words.split_last() else {
        return false;
    };
    sources.iter().any(|(path, text)| {
        let path = path.with_extension("");
        let in_path = |module: &str| path.iter().any(|part| part == module);
        text.contains(&format!("fn {name}()"))
            && modules
                .iter()
                .all(|module| *module == "tests" || in_path(module))
    })
}

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}
