//! Parser of a table's check cell, whose content is in backquotes.

/// Parts of a cell by kind.
#[derive(Debug, Default, PartialEq)]
pub struct Cell {
    /// Names of tests, in the syntax of `names.rs`.
    pub names: Vec<String>,
    /// Makefile targets: `make test-vm`.
    pub targets: Vec<String>,
    /// Benches in the brackets after `make bench`; text after ` -- ` selects a part of one.
    pub benches: Vec<String>,
    /// Environment variables that name missing programs: `ORLOP_TEST_CRIO`.
    pub variables: Vec<String>,
    /// Documents with more details.
    pub documents: Vec<String>,
}

impl Cell {
    pub fn read(text: &str) -> Result<Self, String> {
        let mut cell = Self::default();
        if text.matches('`').count() % 2 == 1 {
            return Err("a backquote that none closes".to_owned());
        }
        let mut parts = text.split('`').skip(1);
        let mut is_bench = false;
        while let (Some(word), Some(after)) = (parts.next(), parts.next()) {
            let target = word.strip_prefix("make ");
            if is_bench {
                let name = word.split(" -- ").next().unwrap_or_default();
                cell.benches.push(name.to_owned());
            } else if let Some(target) = target {
                cell.targets.push(target.to_owned());
            } else if word.starts_with("docs/") {
                cell.documents.push(word.to_owned());
            } else if word.starts_with("ORLOP_") {
                let name = word.split('=').next().unwrap_or_default();
                cell.variables.push(name.to_owned());
            } else {
                cell.names.push(word.to_owned());
            }
            is_bench =
                (target == Some("bench") && after == " (") || (is_bench && !after.contains(')'));
        }
        if cell.names.is_empty() && cell.targets.is_empty() {
            return Err("names no test and no command".to_owned());
        }
        if cell.targets.iter().any(|target| target == "bench") == cell.benches.is_empty() {
            return Err("`make bench` is followed by (`BENCH`)".to_owned());
        }
        Ok(cell)
    }
}

#[test]
fn a_cell_names_tests_commands_and_benches() {
    let text = "`make bench` (`pods -- flat`, and `lazy`), `cri a::*` (`make test-vm`), where `ORLOP_TEST_X=y` \
        says so: `docs/reference/security.md`, `it`";
    let cell = Cell::read(text).unwrap();
    assert_eq!(cell.names, ["cri a::*", "it"]);
    assert_eq!(cell.targets, ["bench", "test-vm"]);
    assert_eq!(cell.benches, ["pods", "lazy"]);
    assert_eq!(cell.variables, ["ORLOP_TEST_X"]);
    assert_eq!(cell.documents, ["docs/reference/security.md"]);
    for wrong in [
        "",
        "by hand",
        "`pods",
        "`ORLOP_X` alone",
        "`make bench`, `pods`",
    ] {
        Cell::read(wrong).expect_err(wrong);
    }
}
