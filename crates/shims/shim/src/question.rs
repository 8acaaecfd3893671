//! The questions that the daemon sends to the supervisor of a pod.

/// No identity begins so.
const MARK: char = '?';
/// What is said of a sandbox that is there, and of one that is not.
pub(crate) const READY: &str = "ready";
pub(crate) const DOWN: &str = "down";

/// A question, as its first line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// What a container uses, or the pod.
    Figures,
    /// How it is with the sandbox.
    Status,
    /// To tell who made it that the pod gets something else now.
    Update,
}

impl Question {
    pub(crate) fn of(line: &str) -> Option<Self> {
        match line.strip_prefix(MARK)? {
            "figures" => Some(Self::Figures),
            "status" => Some(Self::Status),
            "update" => Some(Self::Update),
            _ => None,
        }
    }
}

/// Whether the answer is that there is no sandbox any more.
pub(crate) fn tells_the_end(question: Question, answer: &str) -> bool {
    question == Question::Status && answer.starts_with(DOWN)
}
