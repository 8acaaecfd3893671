//! The command line, as containerd writes it: Go-style flags and an action.

use std::ffi::OsString;
use std::path::PathBuf;

use orlop_ttrpc::Status;

use crate::error::unknown;

/// The action to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a server for a container's pod, or find the running one.
    Start,
    /// Clean up after a container whose server is dead.
    Delete,
    /// Report the features.
    Info,
    Version,
    /// Run the server that [`Action::Start`] starts; standard input is its socket.
    Serve,
}

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) action: Action,
    pub(crate) namespace: String,
    /// The container's id; for a server, the id of its pod.
    pub(crate) id: String,
    /// The address of containerd's gRPC server, which distinguishes several containerds on a machine.
    pub(crate) address: String,
    /// The bundle; by default the working directory.
    pub(crate) bundle: Option<PathBuf>,
    pub(crate) debug: bool,
}

impl Arguments {
    /// Returns the path of the bundle.
    pub(crate) fn bundle(&self) -> Result<PathBuf, Status> {
        match &self.bundle {
            Some(bundle) => Ok(bundle.clone()),
            None => std::env::current_dir()
                .map_err(|error| unknown(format!("finding the bundle: {error}"))),
        }
    }

    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut arguments = Self {
            action: Action::Serve,
            namespace: String::new(),
            id: String::new(),
            address: String::new(),
            bundle: None,
            debug: false,
        };
        let mut action = None;
        let mut words = words.map(|word| {
            let text = word.into_string();
            text.map_err(|word| format!("{} is not valid UTF-8", word.display()))
        });
        while let Some(word) = words.next() {
            let word = word?;
            let Some(flag) = word.strip_prefix('-') else {
                action.get_or_insert(named(&word)?);
                continue;
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, given) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            match name {
                "v" | "version" => action = Some(Action::Version),
                "info" => action = Some(Action::Info),
                "debug" => arguments.debug = given.is_none_or(|value| value == "true"),
                "namespace" | "id" | "address" | "bundle" | "publish-binary" | "socket" => {
                    let value = match given {
                        Some(value) => value,
                        None => words
                            .next()
                            .ok_or_else(|| format!("the value of -{name} is missing"))??,
                    };
                    match name {
                        "namespace" => arguments.namespace = value,
                        "id" => arguments.id = value,
                        "address" => arguments.address = value,
                        "bundle" => arguments.bundle = Some(value.into()),
                        _ => {}
                    }
                }
                _ => return Err(format!("unknown flag -{name}")),
            }
        }
        arguments.action =
            action.ok_or("this program is started by containerd; do not run it by hand")?;
        if !matches!(arguments.action, Action::Version | Action::Info) {
            for (name, value) in [("namespace", &arguments.namespace), ("id", &arguments.id)] {
                if value.is_empty() {
                    return Err(format!("-{name} is missing"));
                }
            }
            check_name(&arguments.id)?;
        }
        Ok(arguments)
    }
}

fn named(word: &str) -> Result<Action, String> {
    match word {
        "start" => Ok(Action::Start),
        "delete" => Ok(Action::Delete),
        "serve" => Ok(Action::Serve),
        _ => Err(format!("unknown action {word}")),
    }
}

/// Checks an id, which becomes a file name.
pub(crate) fn check_name(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > 200 || id.starts_with('.') || id.contains(['/', '\0']) {
        return Err(format!("{id:?} is not a valid ID"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Action, Arguments};

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_ascii_whitespace().map(Into::into))
    }

    #[test]
    fn lines_of_containerd_are_understood() {
        let line =
            "-namespace k8s.io -address /run/c.sock -publish-binary /usr/bin/c -id a1 -debug start";
        let start = parse(line).unwrap();
        assert_eq!((start.action, start.debug), (Action::Start, true));
        assert_eq!((&*start.namespace, &*start.id), ("k8s.io", "a1"));
        let delete = parse("--namespace=n -address s -id b -bundle /b delete").unwrap();
        assert_eq!(delete.action, Action::Delete);
        assert_eq!(delete.bundle, Some("/b".into()));
        assert_eq!(parse("-info").unwrap().action, Action::Info);
        assert_eq!(parse("-v").unwrap().action, Action::Version);
    }

    #[test]
    fn what_is_missing_or_strange_is_named() {
        for (line, problem) in [
            ("", "started by containerd"),
            ("-id a start", "-namespace is missing"),
            ("-namespace n start", "-id is missing"),
            ("-namespace n -id a/b start", "\"a/b\" is not a valid ID"),
            ("-namespace n -id .. start", "\"..\" is not a valid ID"),
            ("-namespace", "the value of -namespace"),
            ("-odd start", "unknown flag -odd"),
            ("sing", "unknown action sing"),
        ] {
            let said = parse(line).unwrap_err();
            assert!(said.contains(problem), "{line}: {said}");
        }
    }
}
