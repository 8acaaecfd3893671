//! `completion`: shell completion, including names and IDs of existing objects.
//!
//! The scripts contain no definitions: they pass the words to the hidden `__complete`, which walks the clap
//! definitions.

mod answer;
mod candidates;
mod script;
mod things;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, ValueEnum};

use crate::output::{forgive_deaf_reader, write_all};

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL", default_value = "bash")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A command line that is being typed.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// Its words, the program's name included, up to and with the one being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl CompletionArgs {
    /// Prints the script for a program of this name.
    pub fn run(self, program: &str) -> anyhow::Result<ExitCode> {
        let script = match self.shell {
            Shell::Bash => script::BASH,
            Shell::Zsh => script::ZSH,
            Shell::Fish => script::FISH,
        };
        let script = script.replace("@NAME@", program);
        let printed = write_all(&script).map(|()| ExitCode::SUCCESS);
        forgive_deaf_reader(printed.map_err(Into::into))
    }
}

impl CompleteArgs {
    /// Prints the candidates for the last word, one on each line, with a tab and a description. Errors are not printed,
    /// as they would disturb the shell.
    pub fn run<C: CommandFactory>(self) -> anyhow::Result<ExitCode> {
        let words: Vec<String> = self
            .words
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let wanted = words::wanted(&C::command(), &words);
        let lines = answer::lines(wanted);
        let printed = write_all(&lines).map(|()| ExitCode::SUCCESS);
        forgive_deaf_reader(printed.map_err(Into::into))
    }
}
