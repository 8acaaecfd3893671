//! Flags that a profile can name.

use crate::kernel;

/// A flag that a profile can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Filters all threads.
    Tsync,
    /// Does not enable speculation mitigations.
    SpecAllow,
    /// Logs calls that are not allowed.
    Log,
    /// A process that waits for an agent can only be killed.
    WaitKillable,
}

impl Flag {
    pub(crate) const ALL: [Self; 4] = [Self::Tsync, Self::SpecAllow, Self::Log, Self::WaitKillable];

    /// Returns the name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsync => "SECCOMP_FILTER_FLAG_TSYNC",
            Self::SpecAllow => "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
            Self::Log => "SECCOMP_FILTER_FLAG_LOG",
            Self::WaitKillable => "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
        }
    }

    /// Returns the bit for the kernel (`linux/seccomp.h`); 0 for `Tsync`, as there is one thread.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Tsync => 0,
            Self::Log => 1 << 1,
            Self::SpecAllow => 1 << 2,
            Self::WaitKillable => 1 << 5,
        }
    }

    /// Returns whether this kernel supports it. `Tsync` has no effect in a single-threaded process such as a runtime's,
    /// so it needs no kernel support.
    pub fn is_supported(self) -> bool {
        match self {
            Self::Tsync => true,
            Self::WaitKillable => kernel::supports(self.bits() | kernel::NEW_LISTENER),
            Self::SpecAllow | Self::Log => kernel::supports(self.bits()),
        }
    }
}
