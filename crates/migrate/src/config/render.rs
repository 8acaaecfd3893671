//! The plan as a file of orlop's.

use std::fmt::Write as _;

use toml::Value;

use super::{Outcome, Plan};

impl Plan {
    /// The configuration, with a comment on what has no counterpart.
    pub fn render(&self, from: &str) -> String {
        let mut text = format!("# Made by `orlop migrate --from {from}`.\n");
        for note in &self.notes {
            if let Outcome::Lost(why) = &note.outcome {
                let place = format!("{}:{}", note.file.display(), note.line);
                let line = format!("# not taken over: {} ({place}): {why}", note.key);
                let _ = writeln!(text, "{}", line.replace(char::is_control, " "));
            }
        }
        let mut current = String::new();
        for ((table, key), value) in &self.settings {
            if *table != current {
                let header = table.split('.').map(quoted).collect::<Vec<_>>();
                // A runtime's name may have dots itself.
                let header = match table.split_once('.') {
                    Some((first, rest)) => format!("{first}.{}", quoted(rest)),
                    None => header.concat(),
                };
                let _ = write!(text, "\n[{header}]\n");
                current.clone_from(table);
            }
            let _ = writeln!(text, "{} = {}", quoted(key), inline(value));
        }
        text
    }
}

fn quoted(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        Value::String(name.to_owned()).to_string()
    }
}

/// A table is written in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let entries = table
                .iter()
                .map(|(key, value)| format!("{} = {}", quoted(key), inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
