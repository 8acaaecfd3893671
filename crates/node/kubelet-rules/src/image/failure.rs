//! Reasons of failed image pulls.

use crate::waiting::WaitingReason;

/// The kind of a failed pull, for the reason of a waiting container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullFailure {
    /// The registry cannot be reached.
    RegistryUnavailable,
    /// The signature of the image is missing or invalid.
    SignatureValidationFailed,
    /// Anything else.
    ErrImagePull,
}

impl PullFailure {
    /// Returns the reason that a waiting container shows.
    pub fn reason(self) -> WaitingReason {
        match self {
            Self::RegistryUnavailable => WaitingReason::RegistryUnavailable,
            Self::SignatureValidationFailed => WaitingReason::SignatureValidationFailed,
            Self::ErrImagePull => WaitingReason::ErrImagePull,
        }
    }
}

/// Classifies failures as the kubelet does, by the prefix of the runtime's message.
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
