//! Finds the reason why a program failed in its output.

use serde::Deserialize;

/// Returns the last error in a runtime's log, otherwise its output.
pub(crate) fn failure_reason(log: &str, printed: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        level: String,
        msg: String,
    }
    let lines = log.lines().rev();
    let mut lines = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let error = lines.find(|line| line.level == "error" || line.level == "fatal");
    let words = error.map(|line| line.msg).or_else(|| {
        let mut texts = [printed, log].into_iter();
        texts.find_map(|text| {
            text.lines()
                .map(str::trim)
                .rfind(|line| !line.is_empty())
                .map(Into::into)
        })
    });
    words
        .map(|words| words.trim().to_owned())
        .filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::failure_reason;

    #[test]
    fn a_runtimes_last_error_is_its_reason() {
        let log =
            "{\"level\":\"warning\",\"msg\":\"w\"}\n{\"level\":\"error\",\"msg\":\"e\"}\nodd\n";
        assert_eq!(failure_reason(log, "printed").as_deref(), Some("e"));
        assert_eq!(failure_reason("", "one\ntwo\n\n").as_deref(), Some("two"));
        assert_eq!(failure_reason("", ""), None);
    }
}
