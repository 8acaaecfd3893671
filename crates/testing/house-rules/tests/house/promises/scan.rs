//! Finds the tests of a source file and of its modules, with the names of the test runner.

use std::fs;
use std::path::{Path, PathBuf};

use crate::words::words;

/// A test function.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Modules and name: `tests::a_pod_is_ready`.
    pub path: String,
    /// Whether it has `#[ignore]`.
    pub ignored: bool,
}

/// Returns the tests of the crate with this root file.
pub fn crate_tests(root: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    let below = root.parent().expect("a file has a directory");
    file_tests(root, below, &[], &mut found);
    found
}

/// Collects a file's tests, and those of its modules in the directory `below`.
fn file_tests(file: &Path, below: &Path, modules: &[String], found: &mut Vec<Found>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let items = items(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    for item in items {
        let path = [modules, item.inside.as_slice()].concat();
        match item.kind {
            Kind::Test { ignored } => found.push(Found {
                path: [path.as_slice(), &[item.name]].concat().join("::"),
                ignored,
            }),
            Kind::Module { file: named } => {
                let inside: PathBuf = item.inside.iter().collect();
                let at = below.join(inside);
                let beside = file.parent().expect("a file has a directory");
                let (next, next_below) = match named {
                    Some(named) if item.inside.is_empty() => {
                        let next = beside.join(named);
                        let next_below = next.parent().map(Path::to_owned);
                        (next, next_below.unwrap_or_default())
                    }
                    Some(named) => panic!("{file:?}: #[path] = {named} within a module"),
                    None => {
                        let next_below = at.join(&item.name);
                        let alone = at.join(format!("{}.rs", item.name));
                        let in_folder = next_below.join("mod.rs");
                        let next = if alone.is_file() { alone } else { in_folder };
                        (next, next_below)
                    }
                };
                let path = [path.as_slice(), &[item.name]].concat();
                file_tests(&next, &next_below, &path, found);
            }
        }
    }
}

/// A test, or a module in another file.
#[derive(Debug, PartialEq)]
struct Item {
    name: String,
    /// Inline modules that contain it.
    inside: Vec<String>,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Test { ignored: bool },
    Module { file: Option<String> },
}

/// Returns the tests and modules in a text. Macro definitions are skipped, macro arguments are not.
fn items(text: &str) -> Result<Vec<Item>, String> {
    let words = words(text);
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let mut items = Vec::new();
    // The owner of each open brace.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut attributes = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let inside = || open.iter().flatten().cloned().collect();
        match word(at) {
            "#" if word(at + 1) == "[" => {
                let end = closing(&words, at + 1)?;
                attributes.push(Attribute::read(&words[at + 2..end]));
                at = end + 1;
                continue;
            }
            "macro_rules" if word(at + 1) == "!" => {
                let end = closing(&words, at + 3)?;
                let body = words[at + 3..end].windows(2);
                if body.into_iter().any(|pair| pair == ["test", "]"]) {
                    return Err(format!("the macro {} makes tests", word(at + 2)));
                }
                at = end;
            }
            "mod" if word(at + 2) == ";" => {
                items.push(Item {
                    name: word(at + 1).to_owned(),
                    inside: inside(),
                    kind: Kind::Module {
                        file: attributes.iter().find_map(Attribute::file),
                    },
                });
                at += 2;
            }
            "mod" if word(at + 2) == "{" => {
                open.push(Some(word(at + 1).to_owned()));
                at += 2;
            }
            "fn" if attributes.iter().any(Attribute::is_test) => {
                if attributes.iter().any(Attribute::is_condition) {
                    return Err(format!("the test {} has a #[cfg]", word(at + 1)));
                }
                items.push(Item {
                    name: word(at + 1).to_owned(),
                    inside: inside(),
                    kind: Kind::Test {
                        ignored: attributes.iter().any(Attribute::is_ignore),
                    },
                });
            }
            // These stand between attributes and their item.
            "pub" | "async" | "unsafe" | "const" | "(" | "crate" | ")" => {
                at += 1;
                continue;
            }
            "{" => open.push(None),
            "}" => {
                open.pop().ok_or("a brace is closed that none opens")?;
            }
            _ => {}
        }
        attributes.clear();
        at += 1;
    }
    Ok(items)
}

/// Returns the position of the closing bracket.
fn closing(words: &[&str], at: usize) -> Result<usize, String> {
    let mut depth = 0;
    for (here, word) in words.iter().enumerate().skip(at) {
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(here);
        }
    }
    Err(format!("a {} is never closed", words[at]))
}

/// Tokens of an attribute.
struct Attribute<'t>(Vec<&'t str>);

impl<'t> Attribute<'t> {
    fn read(words: &[&'t str]) -> Self {
        Self(words.to_vec())
    }

    fn begins(&self, with: &[&str]) -> bool {
        self.0.starts_with(with)
    }

    fn is_test(&self) -> bool {
        self.0 == ["test"] || self.begins(&["tokio", "::", "test"])
    }

    fn is_ignore(&self) -> bool {
        self.begins(&["ignore"])
    }

    fn is_condition(&self) -> bool {
        self.begins(&["cfg"])
    }

    /// Returns the file in `#[path = "…"]`.
    fn file(&self) -> Option<String> {
        let named = self
            .begins(&["path", "="])
            .then(|| self.0[2].trim_matches('"'));
        named.map(str::to_owned)
    }
}

#[test]
fn tests_are_found_with_their_modules() {
    let text = r##"
        #[cfg(test)]
        mod tests {
            #[test]
            #[should_panic(expected = "}")]
            pub(crate) fn plain() { let _ = ['{', '\'']; }
            mod deeper { #[tokio::test(flavor = "multi_thread")] #[ignore = "a reason"] async fn late() {} }
            proptest! { #![config(x)] #[test] fn chance(n in 0..9) { } }
            #[path = "other.rs"]
            mod named;
            // #[test] fn in_a_comment() {}
            const TEXT: &str = r#"#[test] fn in_a_text() {}"#;
            #[test]
            const fn after() {}
            fn helper() {}
        }
        macro_rules! some { () => { mod nothing; fn x() {} } }
        mod below;
    "##;
    let items = items(text).unwrap();
    let found: Vec<_> = items
        .iter()
        .map(|item| format!("{}::{} {:?}", item.inside.join("::"), item.name, item.kind))
        .collect();
    let expected = [
        "tests::plain Test { ignored: false }",
        "tests::deeper::late Test { ignored: true }",
        "tests::chance Test { ignored: false }",
        "tests::named Module { file: Some(\"other.rs\") }",
        "tests::after Test { ignored: false }",
        "::below Module { file: None }",
    ];
    assert_eq!(found, expected);
}

#[test]
fn tests_whose_names_cannot_be_known_are_an_error() {
    let made = "macro_rules! each { ($n:ident) => { #[test] fn $n() {} } }";
    assert!(items(made).unwrap_err().contains("each makes tests"));
    let conditional = "#[cfg(feature = \"x\")] #[test] fn sometimes() {}";
    assert!(
        items(conditional)
            .unwrap_err()
            .contains("sometimes has a #[cfg]")
    );
}
