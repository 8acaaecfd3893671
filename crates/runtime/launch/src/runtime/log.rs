//! Extraction of the reason of a failure from a runtime's log and output.

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

/// Returns the best explanation from the end of a runtime's JSON log and output. In this order: the last error in the
/// log, its last entry, its last line, the last line of the output.
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

/// Whether a started runtime failed because a limit of processes was reached, so that the runtime itself is not at
/// fault. It could not clone itself, or its Go runtime could not create a thread.
pub(super) fn is_want(log: &str, output: &str, explanation: &str) -> bool {
    let said = explanation.trim_end().trim_end_matches('.');
    let said = said.strip_suffix("(os error 11)").unwrap_or(said);
    let said = said.trim_end().to_ascii_lowercase();
    said.ends_with("resource temporarily unavailable")
        || log.lines().chain(output.lines()).any(|line| {
            line.starts_with("runtime: failed to create new OS thread")
                || line.starts_with("runtime/cgo: pthread_create failed")
        })
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
    use super::{explanation, is_want};

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

    #[test]
    fn a_runtime_that_could_not_clone_itself_wants_processes() {
        let of = |log: &str, output: &str| {
            let said = explanation(log, output).unwrap_or_default();
            is_want(log, output, &said)
        };
        let go = r#"{"level":"error","msg":"unable to start: fork/exec /proc/self/exe: resource temporarily unavailable"}"#;
        assert!(of(go, ""));
        assert!(of("", "clone: Resource temporarily unavailable\n"));
        assert!(of(
            "",
            "clone3: Resource temporarily unavailable (os error 11)"
        ));
        let crash = "runtime: failed to create new OS thread (have 5 already; errno=11)\n\
                     runtime: may need to increase max user processes (ulimit -u)\nfatal error: newosproc\n";
        assert!(of("", crash));
        assert!(!of(
            "",
            "exec: \"resource temporarily unavailable\": not found"
        ));
        assert!(!of("", ""));
    }
}
