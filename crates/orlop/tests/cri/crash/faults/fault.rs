//! What fails in a pod's life, and when.

use std::fmt;

use super::super::life::{Network, Step};
use super::call;
use super::tracer::What;

/// Whose system call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    Daemon,
    /// That of the pod.
    Keeper,
}

/// What fails.
#[derive(Debug, Clone)]
pub(super) enum Failing {
    Call {
        name: String,
        /// Which of the calls that a thread makes in this step.
        nth: u32,
    },
    /// The execution of this program by a child, until it is seen to have failed.
    Execution(String),
}

/// A fault: what fails, how, and when.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) victim: Victim,
    pub(super) network: Network,
    pub(super) step: Step,
    pub(super) failing: Failing,
    pub(super) error: &'static str,
}

impl Fault {
    /// The faults of a call, or of a program's execution, one for each error.
    pub(super) fn each(
        victim: Victim,
        network: Network,
        step: Step,
        failing: &Failing,
    ) -> impl Iterator<Item = Self> {
        let call = match failing {
            Failing::Call { name, .. } => name,
            Failing::Execution(_) => "execve",
        };
        call::errors_of(call).iter().map(move |error| Self {
            victim,
            network,
            step,
            failing: failing.clone(),
            error,
        })
    }

    pub(super) fn what(&self) -> What<'_> {
        let error = self.error;
        match &self.failing {
            Failing::Call { name, nth } => What::Fails {
                call: name,
                error,
                nth: *nth,
            },
            Failing::Execution(program) => What::ExecutionFails { program, error },
        }
    }

    /// Whether a message says what was being done, and then why it failed: the words of the error alone do not.
    /// The reason may be in words of ours, such as "the pod's keeper is gone".
    pub(super) fn is_told_by(&self, message: &str) -> bool {
        match &self.failing {
            Failing::Call { .. } => {
                let said = message.rsplit_once(": ");
                let is_told =
                    said.is_some_and(|(what, why)| what.contains(' ') && why.contains(' '));
                is_told || message == "transport error"
            }
            Failing::Execution(program) => {
                let name = program.rsplit('/').next().unwrap_or_default();
                // Who calls another tells of it in words of its own.
                let caller = match name {
                    "host-local" => "plugin bridge",
                    _ => name,
                };
                message.contains(name) || message.contains(caller)
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            victim,
            network,
            step,
            failing,
            error,
        } = self;
        write!(f, "{step:?} ({network:?} network), {victim:?}: ")?;
        match failing {
            Failing::Call { name, nth } => write!(f, "{name} {nth}: {error}"),
            Failing::Execution(program) => write!(f, "executing {program}: {error}"),
        }
    }
}
