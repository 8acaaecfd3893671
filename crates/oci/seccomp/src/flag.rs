//! Flags that a profile can name.

use crate::kernel;

/// A flag that a profile can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// All threads are filtered.
    Tsync,
    /// Speculation is not curbed.
    SpecAllow,
    /// What is not allowed is logged.
    Log,
    /// Who waits for an agent can only be killed.
    WaitKillable,
}

impl Flag {
    pub(crate) const ALL: [Self; 4] = [Self::Tsync, Self::SpecAllow, Self::Log, Self::WaitKillable];

    /// Its name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsync => "SECCOMP_FILTER_FLAG_TSYNC",
            Self::SpecAllow => "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
            Self::Log => "SECCOMP_FILTER_FLAG_LOG",
            Self::WaitKillable => "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
        }
    }

    /// What is told to the kernel (`linux/seccomp.h`); nothing of threads, as there is one.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Tsync => 0,
            Self::Log => 1 << 1,
            Self::SpecAllow => 1 << 2,
            Self::WaitKillable => 1 << 5,
        }
    }

    /// Whether this kernel has it. That all threads are filtered means nothing to a process of one
    /// thread, which a runtime's is; it needs no kernel.
    pub fn is_supported(self) -> bool {
        match self {
            Self::Tsync => true,
            Self::WaitKillable => kernel::supports(self.bits() | kernel::NEW_LISTENER),
            Self::SpecAllow | Self::Log => kernel::supports(self.bits()),
        }
    }
}
