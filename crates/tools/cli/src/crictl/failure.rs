//! crictl's exit codes and error messages.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use jiff::Timestamp;
use orlop_cri_api::client::ClientError;

use crate::output::Style;

/// Reports an invalid command line as crictl does: with help and success if arguments are missing or too many, else
/// with an error.
pub(super) fn usage(error: &clap::Error, root: &mut Command, words: &[String]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that closes the pipe early is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        ErrorKind::InvalidSubcommand => {
            let word = context(error, ContextKind::InvalidSubcommand);
            say!("No help topic for '{word}'");
            return ExitCode::from(3);
        }
        _ => {}
    }
    let name = words.iter().find_map(|word| {
        root.find_subcommand(word)
            .map(|command| command.get_name().to_owned())
    });
    let name = name.unwrap_or_default();
    match error.kind() {
        ErrorKind::MissingRequiredArgument => match name.as_str() {
            "checkpoint"
                if words
                    .iter()
                    .any(|word| !word.starts_with('-') && word != "checkpoint") =>
            {
                complain(
                    "cannot checkpoint a container without specifying the checkpoint destination. \
                     Use --export=/path/to/checkpoint.tar",
                )
            }
            "start" | "update" | "attach" | "logs" | "checkpoint" => complain("ID cannot be empty"),
            "pull" => complain("image name cannot be empty"),
            "stop" => {
                say!("you must specify at least one CONTAINER-ID or use --all");
                ExitCode::FAILURE
            }
            _ => help(root, &name),
        },
        ErrorKind::UnknownArgument | ErrorKind::TooManyValues => {
            let word = context(error, ContextKind::InvalidArg);
            if !word.starts_with('-') {
                return help(root, &name);
            }
            let text = format!(
                "flag provided but not defined: -{}",
                word.trim_start_matches('-')
            );
            print(&format!("Incorrect Usage: {text}\n\n"));
            help(root, &name);
            complain(&text)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help(root, &name)
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation
            if matches!(name.as_str(), "metricsp" | "metricdescs") =>
        {
            help(root, &name)
        }
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            complain(text.lines().next().unwrap_or_default())
        }
    }
}

/// Prints an error in the format of crictl's log.
pub(super) fn complain(text: &str) -> ExitCode {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        say!("{}[0000] {text}", Style::of(&stderr).colour(31, "ERRO"));
    } else {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        say!("time=\"{time}\" level=error msg={text:?}");
    }
    ExitCode::FAILURE
}

/// Formats an error with its causes. Errors of calls keep the format of gRPC, which scripts search for.
pub(super) fn words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        match cause.downcast_ref::<ClientError>() {
            Some(ClientError::Call { status, .. }) => {
                let _ = write!(
                    text,
                    "rpc error: code = {:?} desc = {}",
                    status.code(),
                    status.message()
                );
                break;
            }
            Some(error @ (ClientError::Deadline { .. } | ClientError::Broken { .. })) => {
                let _ = write!(text, "rpc error: code = {:?} desc = {error}", error.code());
                break;
            }
            Some(error) if error.source().is_some() => text.push_str(&error.to_string()),
            _ => text.push_str(&cause.to_string()),
        }
    }
    text
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn help(root: &mut Command, name: &str) -> ExitCode {
    let text = match root.find_subcommand_mut(name) {
        Some(command) => command.render_help(),
        None => root.render_help(),
    };
    print(&text.to_string());
    ExitCode::SUCCESS
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use orlop_cri_api::Rpc;

    use super::*;

    #[test]
    fn errors_of_calls_are_in_grpc_s_words() {
        let status = tonic::Status::not_found("no such container");
        let call = ClientError::Call {
            rpc: Rpc::ContainerStatus,
            status: Box::new(status),
        };
        let error = Err::<(), _>(call).context("cannot stop it").unwrap_err();
        assert_eq!(
            words(&error),
            "cannot stop it: rpc error: code = NotFound desc = no such container"
        );
    }
}
