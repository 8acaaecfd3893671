//! Flags that set fields of the kubelet's configuration, generated from the table of fields.

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use orlop_agent::KubeletConfiguration;

use crate::config::argument;

/// Flags that are only valid together.
const TOGETHER: [[&str; 2]; 2] = [
    ["tls-cert-file", "tls-private-key-file"],
    ["tls-private-key-file", "tls-cert-file"],
];

/// Values of the flags, by flag name.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldFlags(BTreeMap<&'static str, Vec<String>>);

impl FieldFlags {
    /// Returns the last value of a flag.
    pub(super) fn value(&self, flag: &str) -> Option<&str> {
        self.0.get(flag)?.last().map(String::as_str)
    }

    /// Overrides the configuration file with the flags.
    pub(super) fn beat(&self, configuration: &mut KubeletConfiguration) -> anyhow::Result<()> {
        for (flag, given) in &self.0 {
            let set = configuration.set_by_flag(flag, given);
            set.map_err(|why| anyhow!("--{flag}: {why}"))?;
        }
        Ok(())
    }
}

impl Args for FieldFlags {
    fn augment_args(command: Command) -> Command {
        let flags = KubeletConfiguration::flags().into_iter().map(|flag| {
            // Same syntax as the kubelet: `--flag value`, also for switches and negative numbers.
            let arg = argument(flag)
                .require_equals(false)
                .allow_negative_numbers(true);
            let other = TOGETHER.iter().find(|[name, _]| *name == flag.name);
            match other {
                Some([_, other]) => arg.requires(*other),
                None => arg,
            }
        });
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FieldFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = KubeletConfiguration::flags()
            .into_iter()
            .filter_map(|flag| {
                let texts = matches.get_many::<String>(flag.name)?;
                Some((flag.name, texts.cloned().collect()))
            });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
