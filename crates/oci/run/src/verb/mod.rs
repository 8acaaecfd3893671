//! The commands, one file each.

mod checkpoint;
mod command;
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

use crate::args::{Flag, GLOBAL};

pub(crate) use command::{Call, SPECIFICATION, Verb};

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
