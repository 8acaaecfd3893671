//! Quotes errors from CRIU's log.

use std::path::Path;

use crate::log::Log;

/// Maximum number of bytes that are read from the end of a log.
const LOG_MAX: u64 = 4 << 20;
/// Maximum number of quoted lines.
const LINES: usize = 40;
/// Number of lines quoted before each error as context.
const BEFORE: usize = 5;

/// Quotes the errors of a log.
pub(super) fn quote(log: &Log, file: &Path) {
    let text = match orlop_fs::read_tail(file, LOG_MAX) {
        Ok(text) => text,
        Err(error) => return log.warn(&format!("reading {}: {error}", file.display())),
    };
    let text = String::from_utf8_lossy(&text);
    let lines = errors_of(&text);
    if lines.is_empty() {
        return;
    }
    log.warn(&format!("--- Quoting {:?}", file.display().to_string()));
    for line in lines {
        log.warn(&line);
    }
    log.warn("---");
}

/// Returns the lines with an error and those just before, each with its number.
fn errors_of(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut said = Vec::new();
    let mut next = 0;
    for (at, line) in lines.iter().enumerate() {
        if !line.contains("Error") {
            continue;
        }
        let first = at.saturating_sub(BEFORE).max(next);
        if first > next && next > 0 {
            said.push("...".to_owned());
        }
        let numbered = lines.iter().enumerate().take(at + 1).skip(first);
        said.extend(numbered.map(|(number, line)| format!("{}:{line}", number + 1)));
        next = at + 1;
    }
    said.split_off(said.len().saturating_sub(LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_quoted_with_what_was_before_it() {
        let mut lines: Vec<String> = (1..=20).map(|number| format!("line {number}")).collect();
        lines[7] = "Error one".to_owned();
        lines[8] = "Error two".to_owned();
        lines[18] = "Error three".to_owned();
        let said = errors_of(&lines.join("\n"));
        assert_eq!(said[0], "3:line 3");
        assert_eq!(said[5..8], ["8:Error one", "9:Error two", "..."]);
        assert_eq!(said.last().unwrap(), "19:Error three");
        assert_eq!(said.len(), 14);
        assert!(errors_of("all\nwell\n").is_empty());
    }
}
