//! Limits on the answers of key providers.

/// No answer is longer.
pub(super) const LONGEST_ANSWER: usize = 64 << 10;
/// As much as anybody reads of what one has to say.
const LONGEST_COMPLAINT: usize = 300;

/// As much of what one complains about as is told.
pub(super) fn complaint(text: &str) -> String {
    let printable = text
        .trim()
        .chars()
        .filter(|char| !char.is_control() || *char == '\n');
    printable.take(LONGEST_COMPLAINT).collect()
}
