//! Converts crictl's command lines to the syntax of clap.
//!
//! Go's flags may have one dash or two (`-quiet`, `--quiet`), and switches may have a value (`--all=false`). Words
//! after the first one that is no flag are unchanged: they may belong to a command that runs in a container.

use clap::{Arg, ArgAction, Command};

/// Converts the words after the program's name.
pub(super) fn normalised(root: &Command, words: Vec<String>) -> Vec<String> {
    let mut command = root;
    let mut done = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" || word == "-" || !word.starts_with('-') {
            let below = command.find_subcommand(&word);
            if word == "h" && below.is_none() && command.has_subcommands() {
                done.push("help".to_owned());
                break;
            }
            done.push(word);
            match below {
                Some(below) => command = below,
                None => break,
            }
            continue;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let bare = name.trim_start_matches('-');
        let Some(flag) = find(command, bare) else {
            // Several letters in one word; the value of the last one may be the next word.
            let takes = word
                .chars()
                .next_back()
                .and_then(|letter| short(command, letter))
                .is_some_and(takes_value);
            done.push(word);
            if takes {
                done.extend(words.next());
            }
            continue;
        };
        let spelled = match flag.get_long() {
            Some(long) => format!("--{long}"),
            None => format!("-{bare}"),
        };
        match (takes_value(flag), value) {
            (true, Some(value)) => done.push(format!("{spelled}={value}")),
            (true, None) => {
                done.push(spelled);
                done.extend(words.next());
            }
            (false, None | Some("true" | "1" | "t" | "T" | "TRUE" | "True")) => done.push(spelled),
            (false, Some("false" | "0" | "f" | "F" | "FALSE" | "False")) => {}
            (false, Some(_)) => done.push(word),
        }
    }
    done.extend(words);
    done
}

/// Finds a flag by its long name or its letter.
pub(super) fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let long = command.get_arguments().find(|arg| {
        arg.get_long() == Some(name)
            || arg
                .get_all_aliases()
                .is_some_and(|aliases| aliases.contains(&name))
    });
    let mut letters = name.chars();
    long.or_else(|| match (letters.next(), letters.next()) {
        (Some(letter), None) => short(command, letter),
        _ => None,
    })
}

fn short(command: &Command, letter: char) -> Option<&Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_short() == Some(letter))
}

pub(super) fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !matches!(arg.get_action(), ArgAction::SetTrue)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Crictl;
    use super::*;

    #[test]
    fn go_s_spellings_become_ours() {
        let mut root = Crictl::command();
        root.build();
        let read = |line: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            normalised(&root, words).join(" ")
        };
        assert_eq!(read("ps -quiet -all=true"), "ps --quiet --all");
        assert_eq!(read("ps --all=false -q"), "ps --quiet");
        assert_eq!(
            read("-runtime-endpoint x ps -aq"),
            "--runtime-endpoint x ps -aq"
        );
        assert_eq!(read("pull -pt 5s img"), "pull --pull-timeout 5s img");
        assert_eq!(read("ps -n 3 -state Exited"), "ps --last 3 --state Exited");
        assert_eq!(
            read("exec -it web ls -all=false -- -x"),
            "exec -it web ls -all=false -- -x",
            "the command in the container is its own"
        );
        assert_eq!(read("h ps"), "help ps");
        assert_eq!(read("inspect -o=json x"), "inspect --output=json x");
    }
}
