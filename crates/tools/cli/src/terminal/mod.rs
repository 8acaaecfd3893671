//! Interaction with the user: keys, interrupts, passwords and progress.

pub(crate) mod interrupt;
mod live;
mod password;
mod progress;

pub(crate) use live::Side;
pub(crate) use password::CredentialFlags;
pub(crate) use progress::Progress;
