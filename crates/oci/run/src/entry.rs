//! The entry point: from the command line to an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::{FlagsEnd, GLOBAL, Globals, Parsed, text_of};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::protect;
use crate::verb::{self, VERBS, Verb};

/// Runs the command of the command line.
pub(crate) fn run() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (globals, rest) = match Globals::before_verb(words) {
        Ok(Some(found)) => found,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => return refuse(&Log::default(), &error),
    };
    let log = match Log::open(globals.log.clone(), globals.log_format, globals.debug) {
        Ok(log) => log,
        Err(error) => return refuse(&Log::default(), &error),
    };
    match command(&globals, &log, rest) {
        Ok(code) => ExitCode::from(code),
        Err(error) => refuse(&log, &error),
    }
}

fn refuse(log: &Log, error: &Error) -> ExitCode {
    log.error(&error.to_string());
    if log.is_a_file() {
        eprintln!("{error}");
    }
    ExitCode::from(error.code)
}

impl Globals {
    /// Parses the flags before the verb and returns the rest; `None` if it only printed help or the version.
    fn before_verb(words: Vec<OsString>) -> Result<Option<(Self, Vec<OsString>)>> {
        let mut parsed = Parsed::parse(words, GLOBAL, FlagsEnd::AtFirstArgument)?;
        if parsed.is_on("version")? {
            verb::print_version();
            return Ok(None);
        }
        if parsed.is_on("help")? || parsed.rest.is_empty() {
            verb::print_help();
            return Ok(None);
        }
        let globals = Self::of(&parsed)?;
        Ok(Some((globals, std::mem::take(&mut parsed.rest))))
    }
}

fn command(globals: &Globals, log: &Log, words: Vec<OsString>) -> Result<u8> {
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_default();
    let name = text_of(&name, "the command")?;
    let verb = VERBS.iter().find(|verb| verb.name == name);
    let Some(verb) = verb else {
        if name == "help" {
            verb::print_help();
            return Ok(0);
        }
        return Err(
            Error::new(format!("No help topic for '{name}': unknown command")).with_code(3),
        );
    };
    let parsed = Parsed::parse(words, verb.flags, verb.flags_end)?;
    if parsed.is_on("help")? {
        verb::print_help_of(verb);
        return Ok(0);
    }
    log.debug(|| format!("{name}: the state directory is {}", globals.root.display()));
    if verb.enters {
        protect::protect()?;
    }
    (verb.run)(&verb::Call {
        globals,
        log,
        parsed: &parsed,
    })
    .map_err(|error| told(verb, error))
}

fn told(verb: &Verb, error: Error) -> Error {
    match verb.failed {
        Some(failed) => error.within(failed),
        None => error,
    }
}
