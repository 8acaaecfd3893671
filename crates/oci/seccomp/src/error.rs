//! What can be wrong with a profile, and with a program that was kept.

/// Why a profile cannot be compiled. The words are runc's where it has any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An architecture that is in no table.
    #[error("string {0} is not a valid arch for seccomp")]
    UnknownArchitecture(String),
    /// An architecture that no process of this machine can have.
    #[error(
        "error adding architecture to seccomp filter: {0} has a different byte order than this \
         machine; remove it from the profile"
    )]
    ForeignByteOrder(&'static str),
    /// A flag that is none of those of `known`.
    #[error("seccomp flag {0} is not known to runc")]
    UnknownFlag(String),
    /// A flag that the kernel does not have.
    #[error("seccomp flag {0} is not supported by this kernel; remove it from the profile")]
    UnsupportedFlag(&'static str),
    /// An action that the kernel does not have.
    #[error(
        "seccomp action {0} is not supported by this kernel; use another action in the profile"
    )]
    UnsupportedAction(&'static str),
    /// An agent cannot be asked of everything: it could not be told who asks.
    #[error("SCMP_ACT_NOTIFY cannot be used as default action")]
    NotifyByDefault,
    /// By this call the runtime tells of the listener.
    #[error("SCMP_ACT_NOTIFY cannot be used for the write syscall")]
    NotifyWrite,
    /// A call without a name.
    #[error("empty string is not a valid syscall")]
    EmptyName,
    /// An argument past the sixth.
    #[error(
        "error creating seccomp syscall condition for syscall {call}: argument {index} does not exist; system calls have arguments 0 to 5"
    )]
    NoSuchArgument {
        /// The call's name.
        call: String,
        /// The argument's number.
        index: u32,
    },
    /// What to do cannot be told from the profile.
    #[error(
        "error adding seccomp rule for syscall {0}: two rules have the same conditions and different actions"
    )]
    Contradiction(&'static str),
    /// More instructions than the kernel takes.
    #[error(
        "the seccomp profile compiles to {0} instructions, but the kernel allows only 4096; use fewer conditions"
    )]
    TooLong(usize),
}

/// Why bytes are not those of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They are of another kind, version or machine.
    #[error("not a seccomp program of this version and architecture")]
    Foreign,
    /// They are fewer or more than they say themselves.
    #[error("the length of the seccomp program does not match its header")]
    Length,
    /// They were changed.
    #[error("the checksum of the seccomp program does not match")]
    Checksum,
    /// An instruction is none that a program of ours has.
    #[error("instruction {0} of the seccomp program is invalid")]
    Instruction(usize),
}
