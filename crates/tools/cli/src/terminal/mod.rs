//! Whoever sits before the command: keys, interrupts, passwords, and what is shown meanwhile.

pub(crate) mod interrupt;
mod live;
mod password;
mod progress;

pub(crate) use live::Side;
pub(crate) use password::CredentialFlags;
pub(crate) use progress::Progress;
