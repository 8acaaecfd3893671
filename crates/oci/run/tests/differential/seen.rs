//! What a probe told, as facts that can be compared: numbers that differ from run to run are put into words.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ground::Ground;

/// Values by what they are of.
pub(crate) type Facts = BTreeMap<String, String>;

/// A line of a probe.
pub(crate) fn report(line: &str) -> Option<Value> {
    let report: Value = serde_json::from_str(line.trim()).ok()?;
    report.get("status").is_some().then_some(report)
}

/// Notes what is in a report, under a prefix.
pub(crate) fn note(prefix: &str, report: &Value, ground: &Ground, facts: &mut Facts) {
    let known = ground.known_namespaces();
    for (name, part) in report.as_object().into_iter().flatten() {
        match name.as_str() {
            "namespaces" => {
                for (kind, identity) in part.as_object().into_iter().flatten() {
                    let identity = identity.as_str().unwrap_or_default();
                    let which = known.get(identity).copied().unwrap_or("a new one");
                    facts.insert(format!("{prefix}namespaces/{kind}"), which.to_owned());
                }
            }
            // What it has by itself is said relative to this.
            "pid" => {}
            "mounts" => mounts(&format!("{prefix}mounts"), part, facts),
            "stat" => stat(&format!("{prefix}stat"), part, report, facts),
            "status" => {
                let mut part = part.clone();
                // Ids of the machine's namespace differ; how many there are does not.
                for name in ["NSpid", "NStgid"] {
                    let count = part[name]
                        .as_str()
                        .map(|ids| ids.split_whitespace().count());
                    part[name] = count.into();
                }
                flatten(&format!("{prefix}status"), &part, facts);
            }
            name => flatten(&format!("{prefix}{name}"), part, facts),
        }
    }
}

/// A value, leaf by leaf.
pub(crate) fn flatten(name: &str, value: &Value, facts: &mut Facts) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}/{field}"), value, facts);
            }
        }
        Value::String(text) => drop(facts.insert(name.to_owned(), text.clone())),
        Value::Null => {}
        other => drop(facts.insert(name.to_owned(), other.to_string())),
    }
}

/// Each mount by where it is, and how many are there below it.
fn mounts(name: &str, lines: &Value, facts: &mut Facts) {
    let lines: Vec<Vec<&str>> = lines
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|line| line.split(' ').collect())
        .collect();
    let points: BTreeMap<&str, &str> = lines
        .iter()
        .filter_map(|line| Some((*line.first()?, *line.get(4)?)))
        .collect();
    // Those at one place from below, whatever their order in the table.
    let parents: BTreeMap<&str, &str> = lines
        .iter()
        .filter_map(|line| Some((*line.first()?, *line.get(1)?)))
        .collect();
    for line in &lines {
        let [id, parent, _, root, point, options, rest @ ..] = &line[..] else {
            continue;
        };
        let mut below = *id;
        let mut layer = 0;
        while let Some(next) = parents
            .get(below)
            .filter(|_| points.get(below) == Some(point))
        {
            below = next;
            layer += 1;
        }
        let at = match layer {
            1 => format!("{name}/{point}"),
            more => format!("{name}/{point} #{more}"),
        };
        let mut words = rest.split(|word| *word == "-");
        // Groups of peers by their kind alone.
        let kinds = words.next().unwrap_or_default().iter();
        let kinds: Vec<&str> = kinds.filter_map(|kind| kind.split(':').next()).collect();
        let [kind, source, more] = words.next().unwrap_or_default() else {
            continue;
        };
        // How wide the numbers of files are in memory is the kernel's choice.
        let mut more: Vec<&str> = more.split(',').filter(|it| *it != "inode64").collect();
        more.sort_unstable();
        let parent = points.get(parent).copied().unwrap_or("none here");
        for (what, value) in [
            ("below", parent.to_owned()),
            ("root", (*root).to_owned()),
            ("options", (*options).to_owned()),
            ("propagation", kinds.join(" ")),
            ("type", (*kind).to_owned()),
            ("source", (*source).to_owned()),
            ("of the file system", more.join(",")),
        ] {
            facts.insert(format!("{at}/{what}"), value);
        }
    }
}

/// Whose groups and session it is in, in words.
fn stat(name: &str, stat: &Value, report: &Value, facts: &mut Facts) {
    let pid = report["pid"].to_string();
    for (field, value) in stat.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let ids = ["ppid", "pgrp", "session", "tpgid"];
        let word = match value {
            value if !ids.contains(&field.as_str()) => value,
            "0" => "none",
            "-1" => "no terminal",
            value if *value == pid => "itself",
            _ => "another",
        };
        facts.insert(format!("{name}/{field}"), word.to_owned());
    }
}
