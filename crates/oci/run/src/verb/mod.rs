//! The commands, one file each.

mod checkpoint;
mod create;
mod delete;
mod events;
mod exec;
mod features;
mod kill;
mod list;
mod man;
mod pause;
mod ps;
mod restore;
mod resume;
mod run;
mod spec;
mod start;
mod state;
mod update;

use crate::args::{Flag, FlagsEnd, GLOBAL, Globals, Parsed, switch};
use crate::error::Result;
use crate::log::Log;
use crate::state::{State, StateDir};

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
    fn container(&self) -> Result<StateDir> {
        StateDir::of(&self.globals.root, &self.parsed.only("the container ID")?)
    }

    /// The same, with what is known of it.
    fn known(&self) -> Result<(StateDir, State)> {
        let dir = self.container()?;
        let state = dir.load()?;
        Ok((dir, state))
    }

    /// Warns a caller without root's rights, whose containers may have no cgroups.
    fn may_lack_cgroups(&self, verb: &str) {
        if self.globals.rootless() {
            self.log.warn(&format!(
                "orlop-run {verb} may fail if you don't have the full access to cgroups"
            ));
        }
    }
}

const HELP: Flag = switch("help", Some('h'), "show help");

/// All commands, as `help` lists them.
pub(crate) const VERBS: &[Verb] = &[
    checkpoint::VERB,
    create::VERB,
    delete::VERB,
    events::VERB,
    exec::VERB,
    features::VERB,
    kill::VERB,
    list::VERB,
    man::VERB,
    pause::VERB,
    ps::VERB,
    restore::VERB,
    resume::VERB,
    run::VERB,
    spec::VERB,
    start::VERB,
    state::VERB,
    update::VERB,
];

/// The newest version of the specification that is followed.
pub(crate) const SPECIFICATION: &str = "1.3.0";

pub(crate) fn print_version() {
    println!(
        "orlop-run version {}\nspec: {SPECIFICATION}",
        env!("CARGO_PKG_VERSION")
    );
}

pub(crate) fn print_help() {
    println!(
        "NAME:\n   orlop-run - OCI container runtime, compatible with runc's command line\n\nUSAGE:\n   orlop-run [FLAGS] COMMAND [ARGUMENTS]\n\nCOMMANDS:"
    );
    for verb in VERBS {
        println!("  {:<12} {}", verb.name, verb.about);
    }
    println!("\nFLAGS:");
    print_flags(GLOBAL);
}

pub(crate) fn print_help_of(verb: &Verb) {
    println!(
        "NAME:\n   orlop-run {0} - {1}\n\nUSAGE:\n   orlop-run {0} [FLAGS] {2}\n\nFLAGS:",
        verb.name, verb.about, verb.arguments
    );
    print_flags(verb.flags);
}

fn print_flags(flags: &[Flag]) {
    for flag in flags {
        let short = flag
            .short
            .map_or_else(|| "   ".to_owned(), |short| format!("-{short},"));
        let name = match flag.value {
            Some(value) => format!("--{} {value}", flag.name),
            None => format!("--{}", flag.name),
        };
        println!("  {short} {name:<34} {}", flag.help);
    }
}
