//! A command's definition, and a call of it.

use crate::args::{Flag, FlagsEnd, Globals, Parsed, switch};
use crate::error::Result;
use crate::log::Log;
use crate::state::{State, StateDir};

/// The newest supported version of the specification.
pub(crate) const SPECIFICATION: &str = "1.3.0";

/// A command.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) flags: &'static [Flag],
    pub(crate) flags_end: FlagsEnd,
    /// Whether a process of this program enters a container.
    pub(crate) enters: bool,
    /// The prefix of error messages, if there is one.
    pub(crate) failed: Option<&'static str>,
    pub(crate) run: fn(&Call<'_>) -> Result<u8>,
}

/// A call of a command.
pub(crate) struct Call<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) log: &'a Log,
    pub(crate) parsed: &'a Parsed,
}

impl Call<'_> {
    /// Returns the container named by the only argument.
    pub(super) fn container(&self) -> Result<StateDir> {
        StateDir::of(&self.globals.root, &self.parsed.only("the container ID")?)
    }

    /// Returns the container named by the only argument, and its state.
    pub(super) fn known(&self) -> Result<(StateDir, State)> {
        let dir = self.container()?;
        let state = dir.load()?;
        Ok((dir, state))
    }

    /// Warns a caller without root privileges, whose containers may have no cgroups.
    pub(super) fn may_lack_cgroups(&self, verb: &str) {
        if self.globals.rootless() {
            self.log.warn(&format!(
                "orlop-run {verb} may fail if you don't have the full access to cgroups"
            ));
        }
    }
}

/// The help flag of all commands.
pub(super) const HELP: Flag = switch("help", Some('h'), "show help");
