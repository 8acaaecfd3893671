//! The flags of the daemon, generated from the table of keys. They override every file.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use orlop_text::flag::{Flag, FlagForm};

use super::schema::{Config, DOCKER};
use super::section::dotted;

/// The flag known from cri-dockerd, the only one that sets two keys.
const BIND: &str = "streaming-bind-addr";

/// Values of the flags, by flag name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags(BTreeMap<&'static str, Vec<String>>);

impl Flags {
    /// Applies the flags to the configuration. Returns the keys with the flags that set them.
    pub(super) fn apply(&self, config: &mut Config) -> Result<Vec<(String, String)>, String> {
        let mut set = Vec::new();
        for (table, key, flag) in all() {
            let Some(given) = self.0.get(flag.name) else {
                continue;
            };
            if let Some(section) = config.section_mut(table) {
                section.set_by_flag(key, given)?;
            }
            set.push((dotted(table, key), format!("--{}", flag.name)));
        }
        if let Some(bind) = self.0.get(BIND).and_then(|given| given.last()) {
            let bind = socket_address(bind)?;
            config.streaming.address = bind.ip();
            config.streaming.port = bind.port();
            for key in ["streaming.address", "streaming.port"] {
                set.push((key.to_owned(), format!("--{BIND}")));
            }
        }
        Ok(set)
    }

    #[cfg(test)]
    pub(super) fn given(flags: &[(&'static str, &str)]) -> Self {
        let given = flags.iter();
        Self(
            given
                .map(|(name, text)| (*name, vec![(*text).to_owned()]))
                .collect(),
        )
    }
}

/// Returns every flag with its table and key.
fn all() -> Vec<(&'static str, &'static str, Flag)> {
    let config = Config::default();
    let of_table = |(table, section): (&'static str, &dyn super::section::Section)| {
        let keys = section.keys().into_iter();
        let flags = keys.filter_map(move |key| Some((table, key.name, key.flag?)));
        flags.collect::<Vec<_>>()
    };
    config.sections().flat_map(of_table).collect()
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|error: std::net::AddrParseError| error.to_string())
}

/// Creates the clap argument of a flag.
pub(crate) fn argument(flag: Flag) -> Arg {
    let check = flag.check;
    let mut arg = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value)
        .help(flag.help);
    arg = match flag.form {
        FlagForm::Value => arg.action(ArgAction::Set),
        FlagForm::Values => arg.action(ArgAction::Append),
        FlagForm::Switch => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    };
    arg = match flag.form {
        FlagForm::Switch => arg.value_parser(PossibleValuesParser::new(["true", "false"])),
        _ => arg.value_parser(move |text: &str| check(text).map(|()| text.to_owned())),
    };
    if flag.commas {
        arg = arg.value_delimiter(',');
    }
    if let Some(alias) = flag.alias {
        arg = arg.alias(alias);
    }
    if let Some(heading) = flag.heading {
        arg = arg.help_heading(heading);
    }
    arg
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let bind = Arg::new(BIND)
            .long(BIND)
            .value_name("ADDRESS:PORT")
            .help("Address of the streaming server for exec, attach and port-forward [default: 127.0.0.1:0]")
            .value_parser(|text: &str| socket_address(text).map(|_| text.to_owned()))
            .help_heading(DOCKER);
        let (docker, others): (Vec<_>, Vec<_>) = all()
            .into_iter()
            .partition(|(_, _, flag)| flag.heading.is_some());
        let flags = others.into_iter().chain(docker);
        command
            .args(flags.map(|(_, _, flag)| argument(flag)))
            .arg(bind)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = all().into_iter().map(|(_, _, flag)| flag.name);
        let given = names.chain([BIND]).filter_map(|name| {
            let texts = matches.get_many::<String>(name)?;
            Some((name, texts.cloned().collect()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Config, String> {
        let command = Flags::augment_args(Command::new("serve").no_binary_name(true));
        let matches = command
            .try_get_matches_from(arguments)
            .map_err(|error| error.to_string())?;
        let flags = Flags::from_arg_matches(&matches).unwrap();
        let mut config = Config::default();
        flags.apply(&mut config)?;
        Ok(config)
    }

    #[test]
    fn flags_set_the_keys_of_their_table() {
        let config = read(&[
            "--root=/a",
            "--container-runtime-endpoint=/b.sock",
            "--listen=unix:///c.sock",
            "--cni-bin-dir=/d,/e",
            "--ipv6-dual-stack=false",
            "--streaming-bind-addr=127.0.0.1:7",
            "--cgroup-driver=systemd",
            "--pod-infra-container-image=",
        ])
        .unwrap();
        assert_eq!(config.daemon.root.to_string(), "/a");
        let listen: Vec<_> = config.grpc.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["unix:///b.sock", "unix:///c.sock"]);
        assert_eq!(config.network.bin_dirs.len(), 2);
        assert!(!config.docker.ipv6_dual_stack);
        assert_eq!(config.streaming.port, 7);
        assert!(config.daemon.cgroup_driver.is_some());
        assert_eq!(config.docker.pause_image, None);
        assert!(read(&["--ipv6-dual-stack"]).unwrap().docker.ipv6_dual_stack);
    }

    /// Flags whose help text describes the default, or whose default differs with the docker backend.
    const TOLD_IN_WORDS: [&str; 4] = [
        "cgroup-driver",
        "metrics-listen",
        "pod-infra-container-image",
        "cni-cache-dir",
    ];

    #[test]
    fn the_help_tells_the_default_of_the_key() {
        let mut compared = 0;
        for (table, key, flag) in all() {
            let default = flag.help.split("[default: ").nth(1);
            let Some(default) = default.filter(|_| !TOLD_IN_WORDS.contains(&flag.name)) else {
                continue;
            };
            let default = default.trim_end_matches(']').split(',');
            let given: Vec<_> = default.map(str::to_owned).collect();
            let mut config = Config::default();
            let section = config.section_mut(table).unwrap();
            section.set_by_flag(key, &given).unwrap();
            assert_eq!(config, Config::default(), "--{}", flag.name);
            compared += 1;
        }
        assert!(compared > 10, "{compared}");
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_flag_and_what_it_takes() {
        for (argument, words) in [
            ("--root=a", "'--root <DIR>': \"a\" must be an absolute path"),
            ("--backend=podman", "is not one of native, docker"),
            (
                "--ipv6-dual-stack=perhaps",
                "[possible values: true, false]",
            ),
            ("--streaming-bind-addr=x", "invalid socket address syntax"),
        ] {
            let message = read(&[argument]).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }
}
