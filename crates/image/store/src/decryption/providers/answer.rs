//! Limits on the answers of key providers.

/// Maximum length of an answer.
pub(super) const LONGEST_ANSWER: usize = 64 << 10;
/// Maximum length of an error message that is reported.
const LONGEST_COMPLAINT: usize = 300;

/// Returns the printable start of an error message.
pub(super) fn complaint(text: &str) -> String {
    let printable = text
        .trim()
        .chars()
        .filter(|char| !char.is_control() || *char == '\n');
    printable.take(LONGEST_COMPLAINT).collect()
}
