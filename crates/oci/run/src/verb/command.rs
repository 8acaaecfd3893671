//! A command: what it is called and takes, and how it was given.

use crate::args::{Flag, FlagsEnd, Globals, Parsed, switch};
use crate::error::Result;
use crate::log::Log;
use crate::state::{State, StateDir};

/// The newest version of the specification that is followed.
pub(crate) const SPECIFICATION: &str = "1.3.0";

/// A command.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) flags: &'static [Flag],
    pub(crate) flags_end: FlagsEnd,
    /// Whether a process of ours enters a container.
    pub(crate) enters: bool,
    /// What a failure is called, where that is more than its reason.
    pub(crate) failed: Option<&'static str>,
    pub(crate) run: fn(&Call<'_>) -> Result<u8>,
}

/// A command as it was given.
pub(crate) struct Call<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) log: &'a Log,
    pub(crate) parsed: &'a Parsed,
}

impl Call<'_> {
    /// The container that is the one argument.
    pub(super) fn container(&self) -> Result<StateDir> {
        StateDir::of(&self.globals.root, &self.parsed.only("the container ID")?)
    }

    /// The same, with what is known of it.
    pub(super) fn known(&self) -> Result<(StateDir, State)> {
        let dir = self.container()?;
        let state = dir.load()?;
        Ok((dir, state))
    }

    /// Warns a caller without root's rights, whose containers may have no cgroups.
    pub(super) fn may_lack_cgroups(&self, verb: &str) {
        if self.globals.rootless() {
            self.log.warn(&format!(
                "orlop-run {verb} may fail if you don't have the full access to cgroups"
            ));
        }
    }
}

/// The flag that all commands have.
pub(super) const HELP: Flag = switch("help", Some('h'), "show help");
