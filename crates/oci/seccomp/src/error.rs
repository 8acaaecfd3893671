//! Errors of a profile, and of a cached program.

/// Reasons why a profile cannot be compiled. Messages follow runc's if it has any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unknown architecture.
    #[error("string {0} is not a valid arch for seccomp")]
    UnknownArchitecture(String),
    /// An architecture that no process of this machine can have.
    #[error(
        "error adding architecture to seccomp filter: {0} has a different byte order than this \
         machine; remove it from the profile"
    )]
    ForeignByteOrder(&'static str),
    /// A flag that is not among the known ones.
    #[error("seccomp flag {0} is not known to runc")]
    UnknownFlag(String),
    /// A flag that the kernel does not support.
    #[error("seccomp flag {0} is not supported by this kernel; remove it from the profile")]
    UnsupportedFlag(&'static str),
    /// An action that the kernel does not support.
    #[error(
        "seccomp action {0} is not supported by this kernel; use another action in the profile"
    )]
    UnsupportedAction(&'static str),
    /// An agent cannot be notified of every call: the runtime could not send it the descriptor.
    #[error("SCMP_ACT_NOTIFY cannot be used as default action")]
    NotifyByDefault,
    /// The runtime needs this call to send the listener.
    #[error("SCMP_ACT_NOTIFY cannot be used for the write syscall")]
    NotifyWrite,
    /// A call with an empty name.
    #[error("empty string is not a valid syscall")]
    EmptyName,
    /// An argument index above 5.
    #[error(
        "error creating seccomp syscall condition for syscall {call}: argument {index} does not exist; system calls have arguments 0 to 5"
    )]
    NoSuchArgument {
        /// The name of the call.
        call: String,
        /// The index of the argument.
        index: u32,
    },
    /// The profile is ambiguous.
    #[error(
        "error adding seccomp rule for syscall {0}: two rules have the same conditions and different actions"
    )]
    Contradiction(&'static str),
    /// More instructions than the kernel accepts.
    #[error(
        "the seccomp profile compiles to {0} instructions, but the kernel allows only 4096; use fewer conditions"
    )]
    TooLong(usize),
}

/// Reasons why bytes are not a valid program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The bytes have another format, version or architecture.
    #[error("not a seccomp program of this version and architecture")]
    Foreign,
    /// The length does not match the header.
    #[error("the length of the seccomp program does not match its header")]
    Length,
    /// The bytes were changed.
    #[error("the checksum of the seccomp program does not match")]
    Checksum,
    /// An instruction that this compiler never writes.
    #[error("instruction {0} of the seccomp program is invalid")]
    Instruction(usize),
}
