//! The commands that are clients of a CRI endpoint: what crictl does, by the same words, and what
//! orlop's own services make possible beyond it. Whoever serves that endpoint is not known here.
//!
//! | module | what it holds |
//! |---|---|
//! | `commands` | a file or directory for each command, and the table that lists them |
//! | `table`, `run` | what that table becomes; how a command is run |
//! | `crictl` | the ways of crictl: its spellings, exit codes and words |
//! | `connect` | the endpoint, the flags and the file that name it, TLS, advice after failures |
//! | `input` | what the words of a command line mean |
//! | `families` | what commands have in common that do the same to different things |
//! | `output` | tables, JSON, YAML, templates, values for people |
//! | `terminal` | keys, interrupts, passwords, progress |
//! | `completion`, `man` | what shells and manuals know of a command line |
//! | `host` | what the program knows of its machine |
//! | `reactor` | the thread of a command |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

#[macro_use]
mod say;
#[macro_use]
mod table;

mod commands;
mod completion;
mod connect;
mod crictl;
mod families;
mod host;
mod input;
mod man;
mod output;
pub mod reactor;
mod run;
mod terminal;

pub use commands::{Command, import_archive};
pub use completion::{CompleteArgs, CompletionArgs};
pub use connect::{ClientFlags, Dialect};
pub use crictl::Crictl;
pub use host::{Examined, Host};
pub use input::Span;
pub use man::ManArgs;
pub use output::{Table, stdout};
