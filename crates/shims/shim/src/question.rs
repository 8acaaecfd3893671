//! Questions of the daemon to a pod's supervisor.

/// The first character of a question; no id starts with it.
const MARK: char = '?';
/// The answers for a running and for a missing sandbox.
pub(crate) const READY: &str = "ready";
pub(crate) const DOWN: &str = "down";

/// A question, given by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Resource usage of a container or the pod.
    Figures,
    /// The state of the sandbox.
    Status,
    /// Pass new resources of the pod to its controller.
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

/// Whether an answer says that the sandbox no longer exists.
pub(crate) fn tells_the_end(question: Question, answer: &str) -> bool {
    question == Question::Status && answer.starts_with(DOWN)
}
