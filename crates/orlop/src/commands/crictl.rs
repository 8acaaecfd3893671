//! The binary under the name `crictl`: nothing but the client commands, and `config` is crictl's.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::cli::{ClientFlags, Command, forgive_deaf_reader};
use super::config;
use crate::cli::{CompleteArgs, CompletionArgs};

/// How often crictl tries again to connect.
const RETRIES: i32 = 3;

/// client for CRI
#[derive(Debug, Parser)]
#[command(name = "crictl", version)]
pub(crate) struct Crictl {
    #[command(flatten)]
    flags: ClientFlags,

    #[command(subcommand)]
    command: CrictlCommand,
}

#[derive(Debug, Subcommand)]
enum CrictlCommand {
    #[command(flatten)]
    Client(Command),
    /// Get, set and list the options in crictl.yaml
    Config(config::Args),
    /// Print what makes a shell complete commands, flags, names and ids
    Completion(CompletionArgs),
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
}

impl Crictl {
    /// Whether the binary was called by this name.
    pub(crate) fn is_called(program: Option<&std::ffi::OsStr>) -> bool {
        program
            .and_then(|program| std::path::Path::new(program).file_name())
            .is_some_and(|name| name == "crictl")
    }

    /// Does what the command line says.
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        match self.command {
            CrictlCommand::Config(args) => {
                let done = config::run(&args, self.flags.config.as_deref());
                forgive_deaf_reader(done.map(|()| ExitCode::SUCCESS))
            }
            CrictlCommand::Completion(args) => args.run("crictl"),
            CrictlCommand::Complete(args) => args.run::<Self>(),
            CrictlCommand::Client(command) => {
                self.flags.max_retries.get_or_insert(RETRIES);
                command.run(self.flags)
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
        ] {
            if let Err(error) = Crictl::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
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
