//! The image that a policy is applied to, and the reason for the decision.

use crate::Reference;
use crate::evidence::Evidence;

/// Maximum length of a reason in a message.
const LONGEST_REASON: usize = 400;
/// Maximum number of reasons in a message.
const MAX_REASONS: usize = 3;

/// An image that a policy is applied to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The requested name.
    pub(crate) name: Option<&'a Reference>,
    /// The signatures found for it.
    pub(crate) evidence: &'a Evidence,
}

/// Returns the reason why one of several items is accepted, or the reasons why none is.
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
    // Reasons may contain text from untrusted sources.
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
