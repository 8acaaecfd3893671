//! The image that a policy is applied to, and the reason for the decision.

use crate::Reference;
use crate::evidence::Evidence;

/// As much of a reason as anybody reads.
const LONGEST_REASON: usize = 400;
/// As many reasons as anybody reads.
const MAX_REASONS: usize = 3;

/// An image that is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The name that was asked for.
    pub(crate) name: Option<&'a Reference>,
    /// What is known of its signatures.
    pub(crate) evidence: &'a Evidence,
}

/// Why one of several things of a kind is accepted; else why none of them is.
pub(super) fn any_of(
    kind: &str,
    count: usize,
    outcomes: impl Iterator<Item = Result<String, String>>,
) -> Result<String, String> {
    let mut reasons: Vec<String> = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(reason) => return Ok(reason),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    let more = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    // Parts of them are a stranger's words.
    let short = |reason: &String| reason.chars().take(LONGEST_REASON).collect::<String>();
    let reasons: Vec<String> = reasons.iter().map(short).collect();
    let reasons = reasons.join("; ");
    let mut text = match count {
        1 => format!("its {kind} is not accepted: {reasons}"),
        count => format!("none of its {count} {kind}s is accepted: {reasons}"),
    };
    if more > 0 {
        text.push_str("; …");
    }
    Err(text)
}
