//! What a failed pull is called.

use crate::waiting::WaitingReason;

/// What a failed pull is called in a waiting container's reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullFailure {
    /// The registry cannot be reached.
    RegistryUnavailable,
    /// The image is not signed as it must be.
    SignatureValidationFailed,
    /// Anything else.
    ErrImagePull,
}

impl PullFailure {
    /// The reason a waiting container shows.
    pub fn reason(self) -> WaitingReason {
        match self {
            Self::RegistryUnavailable => WaitingReason::RegistryUnavailable,
            Self::SignatureValidationFailed => WaitingReason::SignatureValidationFailed,
            Self::ErrImagePull => WaitingReason::ErrImagePull,
        }
    }
}

/// Tells failures apart as the kubelet does: by how the runtime's message begins.
pub fn classify_pull_error(message: &str) -> PullFailure {
    [
        PullFailure::RegistryUnavailable,
        PullFailure::SignatureValidationFailed,
    ]
    .into_iter()
    .find(|failure| message.starts_with(failure.reason().word()))
    .unwrap_or(PullFailure::ErrImagePull)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_the_message_decides() {
        for (message, reason) in [
            (
                "RegistryUnavailable: dial tcp: refused",
                "RegistryUnavailable",
            ),
            (
                "SignatureValidationFailed: no key",
                "SignatureValidationFailed",
            ),
            ("pulling: RegistryUnavailable", "ErrImagePull"),
            ("", "ErrImagePull"),
        ] {
            assert_eq!(
                classify_pull_error(message).reason().word(),
                reason,
                "{message:?}"
            );
        }
    }
}
