//! Determines the kind of the word being typed from the clap definitions.

use clap::{Arg, ArgAction, Command};

/// Description of the word being typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The typed part.
    pub(super) begun: String,
    /// The prefix before the value in the same word: `--flag=`.
    pub(super) before: String,
    /// Possible kinds of the word.
    pub(super) kinds: Vec<Kind>,
    /// Subcommands so far.
    pub(super) path: Vec<String>,
    /// Endpoint flag, if given.
    pub(super) endpoint: Option<String>,
    pub(super) config: Option<String>,
}

/// Kind of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of these, each with a description.
    Words(Vec<(String, String)>),
    Container,
    Pod,
    Image,
    Handler,
    /// A file, and the default for unknown kinds.
    File,
}

/// Walks through the words up to the last one.
pub(super) fn wanted(root: &Command, words: &[String]) -> Wanted {
    let mut root = root.clone();
    root.build();
    let (begun, before) = match words.split_last() {
        Some((last, before)) if !before.is_empty() => (last.clone(), &before[1..]),
        _ => (String::new(), &[][..]),
    };
    let mut walk = Walk {
        command: &root,
        path: Vec::new(),
        seen: 0,
        value_of: None,
        only_values: false,
        endpoint: None,
        config: None,
    };
    for word in before {
        walk.pass(word);
    }
    walk.end(begun)
}

struct Walk<'a> {
    command: &'a Command,
    path: Vec<String>,
    /// Number of positional words so far.
    seen: usize,
    /// Flag whose value is next.
    value_of: Option<&'a Arg>,
    /// Whether flags are no longer recognised.
    only_values: bool,
    endpoint: Option<String>,
    config: Option<String>,
}

impl<'a> Walk<'a> {
    fn pass(&mut self, word: &str) {
        if let Some(flag) = self.value_of.take() {
            self.note(flag, word);
        } else if self.only_values {
            self.seen += 1;
        } else if word == "--" {
            self.only_values = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            if let Some(flag) = self.long(name) {
                match value {
                    Some(value) => self.note(flag, value),
                    None if takes_value(flag) => self.value_of = Some(flag),
                    None => {}
                }
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            self.letters(letters);
        } else if self.seen == 0
            && let Some(command) = self.command.find_subcommand(word)
        {
            self.path.push(command.get_name().to_owned());
            self.command = command;
        } else {
            self.seen += 1;
            // The following words may belong to a command that runs in a container.
            self.only_values = self
                .positional(self.seen - 1)
                .is_some_and(Arg::is_trailing_var_arg_set);
        }
    }

    /// Handles short flags in one word; the rest of the word may be the value of one.
    fn letters(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let Some(flag) = self.short(letter) else {
                return;
            };
            if takes_value(flag) {
                let rest = &letters[at + letter.len_utf8()..];
                if rest.is_empty() {
                    self.value_of = Some(flag);
                } else {
                    self.note(flag, rest);
                }
                return;
            }
        }
    }

    fn note(&mut self, flag: &Arg, value: &str) {
        match flag.get_id().as_str() {
            "runtime_endpoint" => self.endpoint = Some(value.to_owned()),
            "config" => self.config = Some(value.to_owned()),
            _ => {}
        }
    }

    fn end(self, begun: String) -> Wanted {
        let mut before = String::new();
        let mut typed = begun.clone();
        let kinds = if let Some(flag) = self.value_of {
            vec![value(flag)]
        } else if !self.only_values && begun.starts_with('-') {
            let flag = begun
                .split_once('=')
                .and_then(|(name, _)| self.long(name.trim_start_matches('-')));
            if let (Some(flag), Some((name, rest))) = (flag, begun.split_once('=')) {
                before = format!("{name}=");
                rest.clone_into(&mut typed);
                vec![value(flag)]
            } else {
                vec![Kind::Words(self.flags())]
            }
        } else {
            let mut kinds = Vec::new();
            if self.seen == 0 && !self.only_values && self.command.has_subcommands() {
                kinds.push(Kind::Words(self.commands()));
            }
            if let Some(arg) = self.positional(self.seen) {
                kinds.extend(values(arg, self.seen));
            }
            kinds
        };
        Wanted {
            begun: typed,
            before,
            kinds,
            path: self.path,
            endpoint: self.endpoint,
            config: self.config,
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let fits = |arg: &&Arg| {
            arg.get_long() == Some(name)
                || arg
                    .get_all_aliases()
                    .is_some_and(|aliases| aliases.contains(&name))
        };
        self.command.get_arguments().find(fits)
    }

    fn short(&self, letter: char) -> Option<&'a Arg> {
        self.command
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter))
    }

    /// Returns the positional argument at an index; the last one may repeat.
    fn positional(&self, place: usize) -> Option<&'a Arg> {
        let mut last = None;
        for (index, arg) in self.command.get_positionals().enumerate() {
            if index == place {
                return Some(arg);
            }
            last = Some(arg);
        }
        last.filter(|arg| matches!(arg.get_action(), ArgAction::Append))
    }

    fn commands(&self) -> Vec<(String, String)> {
        self.command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| {
                let about = command.get_about().map(ToString::to_string);
                (command.get_name().to_owned(), about.unwrap_or_default())
            })
            .collect()
    }

    fn flags(&self) -> Vec<(String, String)> {
        self.command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(|arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                Some((format!("--{}", arg.get_long()?), help))
            })
            .collect()
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// Returns the kind of a flag's value.
fn value(arg: &Arg) -> Kind {
    values(arg, 0).into_iter().next().unwrap_or(Kind::File)
}

/// Returns the kinds of an argument: its possible values, or those implied by its value name.
fn values(arg: &Arg, place: usize) -> Vec<Kind> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let words = possible.iter().filter(|value| !value.is_hide_set());
        let words = words.map(|value| {
            let help = value.get_help().map(ToString::to_string);
            (value.get_name().to_owned(), help.unwrap_or_default())
        });
        return vec![Kind::Words(words.collect())];
    }
    let name = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string);
    // Of a container and its command, only the first word is a container.
    if arg.is_trailing_var_arg_set() && place > 0 {
        return vec![Kind::File];
    }
    let kind = |name: &str| match name.trim_matches(|c: char| "[]:".contains(c)) {
        "CONTAINER" => Some(Kind::Container),
        "POD" => Some(Kind::Pod),
        "IMAGE" => Some(Kind::Image),
        "HANDLER" => Some(Kind::Handler),
        "FORMAT" => Some(Kind::Words(
            ["table", "json", "yaml", "go-template", "jsonpath"]
                .map(|word| (word.to_owned(), String::new()))
                .into(),
        )),
        name if name.contains("FILE") || name.contains("CONFIG") || name.contains("PATH") => {
            Some(Kind::File)
        }
        _ => None,
    };
    let name = if name.contains("] [") {
        name.split(']').next().unwrap_or_default().to_owned()
    } else {
        name
    };
    name.split('|').filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::arg;

    fn root() -> Command {
        Command::new("orlop")
            .arg(arg!(-r --"runtime-endpoint" <ENDPOINT>).id("runtime_endpoint"))
            .subcommand(
                Command::new("exec")
                    .about("Run")
                    .arg(arg!(-t - -tty))
                    .arg(arg!(--transport <P>).value_parser(["spdy", "websocket"]))
                    .arg(
                        Arg::new("words")
                            .value_name("CONTAINER] [COMMAND")
                            .action(ArgAction::Append)
                            .trailing_var_arg(true),
                    ),
            )
            .subcommand(Command::new("logs").arg(Arg::new("c").value_name("CONTAINER|POD")))
    }

    fn at(line: &str) -> Wanted {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        wanted(&root(), &words)
    }

    fn names(kind: &Kind) -> Vec<&str> {
        match kind {
            Kind::Words(words) => words.iter().map(|(word, _)| word.as_str()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_flags_and_things_come_where_they_may_stand() {
        let begin = at("orlop ");
        assert!(names(&begin.kinds[0]).contains(&"exec"));
        assert_eq!(at("orlop exec ").kinds, [Kind::Container]);
        assert_eq!(at("orlop exec -t ").kinds, [Kind::Container]);
        assert_eq!(at("orlop exec web ").kinds, [Kind::File]);
        assert_eq!(at("orlop logs we").kinds, [Kind::Container, Kind::Pod]);
        assert_eq!(at("orlop logs we").begun, "we");
        assert!(names(&at("orlop exec --t").kinds[0]).contains(&"--transport"));
    }

    #[test]
    fn values_of_flags_are_offered_in_both_spellings() {
        let spaced = at("orlop exec --transport w");
        assert_eq!(names(&spaced.kinds[0]), ["spdy", "websocket"]);
        let joined = at("orlop exec --transport=w");
        assert_eq!(
            (joined.before.as_str(), joined.begun.as_str()),
            ("--transport=", "w")
        );
        assert_eq!(names(&joined.kinds[0]), ["spdy", "websocket"]);
        let other = at("orlop -r unix:///x exec ");
        assert_eq!(other.endpoint.as_deref(), Some("unix:///x"));
        assert_eq!(other.path, ["exec"]);
    }
}
