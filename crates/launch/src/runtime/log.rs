//! What a runtime says about its failure.

use serde::Deserialize;

/// The longest message that is passed on.
const MESSAGE_MAX: usize = 4096;

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    level: String,
    #[serde(default)]
    msg: String,
}

/// The best explanation in the end of a runtime's JSON log and of its output: the last error of
/// the log, its last entry, its last line as it is, the last line of the output.
pub(super) fn explanation(log: &str, output: &str) -> Option<String> {
    let entries: Vec<Entry> = log
        .lines()
        .filter_map(|line| serde_json::from_slice(line.trim().as_bytes()).ok())
        .filter(|entry: &Entry| !entry.msg.trim().is_empty())
        .collect();
    let is_error = |entry: &&Entry| matches!(entry.level.as_str(), "error" | "fatal" | "panic");
    let message = entries
        .iter()
        .rev()
        .find(is_error)
        .or(entries.last())
        .map(|entry| entry.msg.as_str())
        .or_else(|| last_line(log))
        .or_else(|| last_line(output))?;
    Some(printable(message))
}

fn last_line(text: &str) -> Option<&str> {
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
}

fn printable(message: &str) -> String {
    message
        .trim()
        .chars()
        .take(MESSAGE_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::explanation;

    #[test]
    fn the_last_error_wins_over_later_chatter() {
        let log = concat!(
            r#"{"level":"warning","msg":"old kernel","time":"t"}"#,
            "\n",
            r#"{"level":"error","msg":"exec: \"nosuch\": not found","time":"t"}"#,
            "\n",
            r#"{"level":"debug","msg":"bye","time":"t"}"#,
            "\n{\"level\":\"err",
        );
        let found = explanation(log, "noise").unwrap();
        assert_eq!(found, "exec: \"nosuch\": not found");
    }

    #[test]
    fn rubbish_is_passed_on_defused() {
        let found = explanation("", "a\n\u{1b}[31mSegmentation\u{7} fault\n\n").unwrap();
        assert_eq!(found, " [31mSegmentation  fault");
        assert_eq!(explanation("\n", "  \n"), None);
    }
}
