//! Why a container is waiting.

use std::fmt;

/// The reason that a waiting container shows, named as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Kubernetes'")]
pub enum WaitingReason {
    /// Nothing blocks it: its start is pending.
    ContainerCreating,
    /// The init containers are not complete.
    PodInitializing,
    InvalidImageName,
    ImageInspectError,
    ErrImageNeverPull,
    ErrImagePull,
    RegistryUnavailable,
    SignatureValidationFailed,
    ImagePullBackOff,
    CreateContainerConfigError,
    CreateContainerError,
    RunContainerError,
    PostStartHookError,
    CrashLoopBackOff,
}

impl WaitingReason {
    /// Returns the reason as text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ContainerCreating => "ContainerCreating",
            Self::PodInitializing => "PodInitializing",
            Self::InvalidImageName => "InvalidImageName",
            Self::ImageInspectError => "ImageInspectError",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
            Self::ErrImagePull => "ErrImagePull",
            Self::RegistryUnavailable => "RegistryUnavailable",
            Self::SignatureValidationFailed => "SignatureValidationFailed",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::CreateContainerConfigError => "CreateContainerConfigError",
            Self::CreateContainerError => "CreateContainerError",
            Self::RunContainerError => "RunContainerError",
            Self::PostStartHookError => "PostStartHookError",
            Self::CrashLoopBackOff => "CrashLoopBackOff",
        }
    }
}

impl fmt::Display for WaitingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
