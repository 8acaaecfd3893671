//! The binary under the name `crictl`: only the client commands, with crictl's `config`, flag syntax, exit codes and
//! error messages.

mod arguments;
mod failure;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{Command, CrictlsOwn};
use crate::completion::{CompleteArgs, CompletionArgs};
use crate::connect::{ClientFlags, Dialect};
use crate::host::Host;
use crate::output::forgive_deaf_reader;

/// Number of connection retries of crictl.
const RETRIES: i32 = 3;

/// Output of `--version`: the compatible version of crictl, and that of orlop.
const VERSION: &str = concat!("version v1.36.0+orlop.", env!("CARGO_PKG_VERSION"));

/// client for CRI
#[derive(Debug, Parser)]
#[command(name = "crictl", version = VERSION, disable_version_flag = true)]
pub struct Crictl {
    /// Print the version
    #[arg(short = 'v', long = "version", action = clap::ArgAction::Version)]
    _version: Option<bool>,

    #[command(flatten)]
    flags: ClientFlags,

    #[command(flatten)]
    unused: UnusedFlags,

    #[command(subcommand)]
    command: CrictlCommand,
}

/// Flags for crictl's own developers. They are accepted with a warning that they have no effect.
#[derive(Debug, clap::Args)]
struct UnusedFlags {
    /// Not supported by this client
    #[arg(long, hide_short_help = true)]
    enable_tracing: bool,

    /// Not supported by this client
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    tracing_sampling_rate_per_million: Option<i64>,

    /// Not supported by this client
    #[arg(long, value_name = "ADDRESS", hide_short_help = true)]
    tracing_endpoint: Option<String>,

    /// Not supported by this client
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    profile_cpu: Option<String>,

    /// Not supported by this client
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    profile_mem: Option<String>,
}

impl UnusedFlags {
    fn say(&self) {
        let given = [
            (self.enable_tracing, "--enable-tracing"),
            (self.profile_cpu.is_some(), "--profile-cpu"),
            (self.profile_mem.is_some(), "--profile-mem"),
        ];
        for (_, flag) in given.into_iter().filter(|(given, _)| *given) {
            say!("warning: {flag} is not supported by this client");
        }
    }
}

#[derive(Debug, Subcommand)]
enum CrictlCommand {
    #[command(flatten)]
    Client(Command),
    #[command(flatten)]
    Own(CrictlsOwn),
    /// Print a shell completion script for commands, flags, names and IDs
    Completion(CompletionArgs),
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
}

impl Crictl {
    /// Returns whether the binary was called by this name.
    pub fn is_called(program: Option<&std::ffi::OsStr>) -> bool {
        program
            .and_then(|program| std::path::Path::new(program).file_name())
            .is_some_and(|name| name == "crictl")
    }

    /// Runs the command line. Every failure is reported before it returns.
    pub fn main(words: impl Iterator<Item = OsString>, host: Host) -> ExitCode {
        let mut root = Self::command();
        root.build();
        let words = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let words = arguments::normalised(&root, words);
        let line = std::iter::once("crictl".to_owned()).chain(words.iter().cloned());
        let read = root
            .try_get_matches_from_mut(line)
            .and_then(|matches| Self::from_arg_matches(&matches));
        match read.map(|read| read.run(host)) {
            Ok(Ok(code)) => code,
            Ok(Err(error)) => failure::complain(&failure::words(&error)),
            Err(error) => failure::usage(&error, &mut root, &words),
        }
    }

    fn run(mut self, host: Host) -> anyhow::Result<ExitCode> {
        self.unused.say();
        match self.command {
            CrictlCommand::Own(command) => forgive_deaf_reader(command.call(&self.flags)),
            CrictlCommand::Completion(args) => args.run("crictl"),
            CrictlCommand::Complete(args) => args.run::<Self>(),
            CrictlCommand::Client(command) => {
                self.flags.max_retries.get_or_insert(RETRIES);
                command.run(self.flags, Dialect::Crictl, host)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_that_scripts_use_are_understood() {
        for line in [
            "crictl ps -a -q",
            "crictl -r unix:///run/containerd/containerd.sock -t 5s ps -aq --no-trunc",
            "crictl ps --label a=b,c=d --label e=f --name ^web$ --state Running -o json",
            "crictl ps -n 3 -r -p abc --image busybox --namespace kube",
            "crictl pods --latest -s ready -v --id x",
            "crictl images -f dangling=true --digests --pinned -q",
            "crictl inspect -o go-template --template {{.status.id}} abc",
            "crictl inspecti --output yaml abc def",
            "crictl exec -s --timeout 5 abc ls -l /",
            "crictl exec -it abc sh",
            "crictl exec --name web -x -e -q -- ls -l",
            "crictl logs -f --tail 5 --since 42m -t abc",
            "crictl logs -p --limit-bytes 100 abc",
            "crictl stop -t 5 abc def",
            "crictl stop --all",
            "crictl rm -fak",
            "crictl rmp -f -a",
            "crictl rmi --prune",
            "crictl runp -r kata -T 10s pod.json",
            "crictl create --with-pull pod c.json p.json",
            "crictl run --no-pull c.json p.json",
            "crictl pull -a x=y --creds u:p --pull-timeout 1m30s busybox",
            "crictl stats -s 2 -a -o json abc",
            "crictl statsp --id abc -w",
            "crictl update --memory 1000 --cpu-quota -1 --oom-score-adj 5 abc",
            "crictl update-runtime-config -p 10.0.0.0/16",
            "crictl --debug --max-retries -1 version",
            "crictl config --set debug=true,timeout=5",
            "crictl config debug true",
            "crictl event -o yaml",
            "crictl info -q --output yaml",
            "crictl attach -it --transport websocket abc",
            "crictl port-forward -r spdy abc 8080:80 :90",
            "crictl checkpoint --export=/tmp/x.tar abc",
            "crictl exec -tls-ca=/x --tls-cert /c --tls-key /k --tls-server-name n abc ls",
            "crictl update --cpu-count 2 --cpu-maximum 3 abc",
            "crictl -enable-tracing --tracing-endpoint x -profile-cpu p ps",
            "crictl completion zsh",
            "crictl create jsonschema -p",
            "crictl run js --container --pod",
            "crictl runp js",
            "crictl pull jsonschema",
        ] {
            let words = line.split(' ').skip(1).map(str::to_owned).collect();
            let words = arguments::normalised(&Crictl::command(), words);
            let words = std::iter::once("crictl".to_owned()).chain(words);
            if let Err(error) = Crictl::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }

    /// All flags of all commands of crictl 1.36, from its help.
    const FLAGS: &str = include_str!("../../../../orlop/tests/client/crictl/flags.txt");

    #[test]
    fn no_flag_of_crictl_is_missing() {
        let mut root = Crictl::command();
        root.build();
        for line in FLAGS.lines() {
            let (words, flags) = line.split_once(": ").unwrap();
            let mut command = &root;
            for word in words.split(' ').skip(1) {
                let below = command.find_subcommand(word);
                command = below.unwrap_or_else(|| panic!("there is no `{words}`"));
            }
            let (flags, valued) = match flags.strip_suffix(" VALUE") {
                Some(flags) => (flags, true),
                None => (flags, false),
            };
            for flag in flags.split(' ') {
                let found = arguments::find(command, flag.trim_start_matches('-'));
                let found = found.unwrap_or_else(|| panic!("{words} has no {flag}"));
                assert_eq!(
                    arguments::takes_value(found),
                    valued,
                    "{words} {flag}: whether it has a value"
                );
            }
        }
    }

    #[test]
    fn the_name_decides() {
        assert!(Crictl::is_called(Some("/usr/bin/crictl".as_ref())));
        assert!(!Crictl::is_called(Some("/usr/bin/orlop".as_ref())));
        assert!(!Crictl::is_called(None));
    }
}
