//! Links between documents, and mentions of documents in code and scripts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::files::{documents, files_below, read, top};

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut broken = Vec::new();
    let mut count = 0;
    for path in documents() {
        let text = without_code(&read(path.to_str().unwrap()));
        for found in link.captures_iter(&text) {
            let to = &found[1];
            if to.starts_with("https://") || to.starts_with("http://") || to.starts_with("mailto:")
            {
                continue;
            }
            count += 1;
            if let Err(reason) = follow(&path, to) {
                broken.push(format!("{}: {to}: {reason}", path.display()));
            }
        }
    }
    assert!(count > 100, "only {count} links");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Checks that the target file exists, and the heading if the link names one.
fn follow(from: &Path, to: &str) -> Result<(), &'static str> {
    let (file, heading) = to
        .split_once('#')
        .map_or((to, None), |(file, heading)| (file, Some(heading)));
    let beside = from.parent().expect("a document is in a directory");
    let path = if file.is_empty() {
        top().join(from)
    } else {
        top().join(beside).join(file)
    };
    if !path.exists() {
        return Err("there is no such file");
    }
    let Some(heading) = heading else {
        return Ok(());
    };
    let text = fs::read_to_string(path).map_err(|_| "it is not a document")?;
    let there = anchors(&text).contains(heading);
    there.then_some(()).ok_or("there is no such heading")
}

/// Returns the link anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let text = without_code(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let letters = line.trim_start_matches('#').trim().chars();
            let kept = letters.filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

/// Removes code blocks from a text.
fn without_code(text: &str) -> String {
    let mut in_code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_document_that_code_or_a_script_names_exists() {
    let named = Regex::new(r"\bdocs/[a-z0-9/_-]+\.md").unwrap();
    let mut files: Vec<PathBuf> = [
        "crates", "contrib", ".ci", ".config", "examples", "fuzz/src",
    ]
    .iter()
    .flat_map(|folder| files_below(&top().join(folder)))
    .collect();
    files.push(top().join("Makefile"));
    let mut missing = Vec::new();
    let mut count = 0;
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for found in named.find_iter(&text) {
            count += 1;
            if !top().join(found.as_str()).is_file() {
                let path = path.strip_prefix(top()).unwrap().display().to_string();
                missing.push(format!("{path}: {}", found.as_str()));
            }
        }
    }
    assert!(count > 30, "only {count} names");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_table_of_contents_names_every_page() {
    let contents = read("docs/SUMMARY.md");
    let pages = documents().into_iter();
    let pages = pages.filter_map(|path| Some(path.strip_prefix("docs").ok()?.to_owned()));
    let missing: Vec<_> = pages
        .filter(|page| page != Path::new("SUMMARY.md"))
        .filter(|page| !contents.contains(&format!("({})", page.display())))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
    assert!(
        read("README.md").contains("docs/README.md"),
        "README.md lacks the start page"
    );
}

#[test]
fn headings_are_found_by_their_names() {
    let found = anchors("# A head, `with` code\n```\n# no head\n```\n## Why is it so?\n");
    assert_eq!(
        found,
        BTreeSet::from(["a-head-with-code".to_owned(), "why-is-it-so".to_owned()])
    );
}
