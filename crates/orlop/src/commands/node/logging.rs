//! The kubelet's logging flags.

use anyhow::bail;
use clap::{Args, ValueEnum};
use orlop_agent::Logging;

use crate::config::Config;
use crate::config::values::{LevelFilter, LogFormat};

/// Logging flags of orlop and of the kubelet.
#[derive(Debug, Clone, Args)]
pub(super) struct LogFlags {
    /// Log level, or one level per module as in info,orlop_kuberuntime=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LevelFilter>,

    /// Log verbosity as in the kubelet: debug from 4, trace from 6; --log-level takes precedence
    #[arg(short, long = "v", value_name = "N")]
    v: Option<u32>,

    /// No effect: use --log-level to set levels of modules
    #[arg(long, value_name = "PATTERN=N,…", hide_short_help = true)]
    vmodule: Option<String>,

    /// Format of log lines [default: text on a terminal, journal format for the systemd journal,
    /// else JSON]
    #[arg(long, value_name = "FORMAT")]
    logging_format: Option<Lines>,

    /// No effect
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    log_flush_frequency: Option<String>,

    /// No effect
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    log_json_info_buffer_size: Option<String>,

    /// No effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", hide_short_help = true)]
    log_json_split_stream: Option<String>,

    /// No effect
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    log_text_info_buffer_size: Option<String>,

    /// No effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", hide_short_help = true)]
    log_text_split_stream: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lines {
    Text,
    Json,
}

impl LogFlags {
    /// Returns the log settings of these flags; an unset flag falls back to the kubelet configuration.
    pub(super) fn over(&self, written: &Logging) -> anyhow::Result<crate::config::Log> {
        let mut log = Config::default().log;
        let written_lines = match written.format.as_str() {
            "" => None,
            "text" => Some(Lines::Text),
            "json" => Some(Lines::Json),
            other => bail!("logging.format must be text or json, not {other:?}"),
        };
        if let Some(lines) = self.logging_format.or(written_lines) {
            log.format = match lines {
                Lines::Text => LogFormat::Text,
                Lines::Json => LogFormat::Json,
            };
        }
        let verbosity = self.v.unwrap_or(written.verbosity);
        let counted = match verbosity {
            0..=3 => None,
            4 | 5 => "debug".parse().ok(),
            _ => "trace".parse().ok(),
        };
        if let Some(level) = self.log_level.clone().or(counted) {
            log.level = level;
        }
        Ok(log)
    }

    /// Returns warnings about flags without effect.
    pub(super) fn remarks(&self) -> Vec<String> {
        let remarks = [
            (
                "vmodule",
                &self.vmodule,
                "use --log-level to set levels of modules, as in info,orlop_kuberuntime=debug",
            ),
            ("log-flush-frequency", &self.log_flush_frequency, UNBUFFERED),
            (
                "log-json-info-buffer-size",
                &self.log_json_info_buffer_size,
                UNBUFFERED,
            ),
            (
                "log-json-split-stream",
                &self.log_json_split_stream,
                ONE_STREAM,
            ),
            (
                "log-text-info-buffer-size",
                &self.log_text_info_buffer_size,
                UNBUFFERED,
            ),
            (
                "log-text-split-stream",
                &self.log_text_split_stream,
                ONE_STREAM,
            ),
        ];
        let given = remarks.into_iter().filter(|(_, value, _)| {
            // A value that equals the behaviour needs no warning.
            value.as_deref().is_some_and(|value| value != "false")
        });
        given
            .map(|(flag, _, why)| format!("--{flag} has no effect: {why}"))
            .collect()
    }
}

const UNBUFFERED: &str = "log lines are written without a buffer";
const ONE_STREAM: &str = "all log lines go to one stream";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        flags: LogFlags,
    }

    fn read(args: &[&str]) -> LogFlags {
        Alone::parse_from([&["node"], args].concat()).flags
    }

    #[test]
    fn a_kubelet_s_verbosity_is_taken_for_a_level() {
        for (args, level) in [
            (&["--v", "2"][..], "info"),
            (&["--v=4"], "debug"),
            (&["-v", "4"], "debug"),
            (&["-v=10"], "trace"),
            (&["-v=10", "--log-level=warn"], "warn"),
        ] {
            let log = read(args).over(&Logging::default()).unwrap();
            assert_eq!(log.level, level.parse().unwrap(), "{args:?}");
        }
    }

    #[test]
    fn a_kubelet_s_configuration_speaks_where_flags_do_not() {
        let written = |verbosity, format: &str| Logging {
            verbosity,
            format: format.to_owned(),
        };
        let log = read(&[]).over(&written(5, "json")).unwrap();
        assert_eq!(log.level, "debug".parse().unwrap());
        assert_eq!(log.format, LogFormat::Json);
        let flags = read(&["-v=2", "--logging-format=text"]);
        let log = flags.over(&written(9, "json")).unwrap();
        assert_eq!(log.level, "info".parse().unwrap());
        assert_eq!(log.format, LogFormat::Text);
        let wrong = read(&[]).over(&written(0, "xml")).unwrap_err().to_string();
        assert!(wrong.contains("logging.format"), "{wrong}");
    }

    #[test]
    fn a_kubelet_s_other_flags_of_logging_are_taken_and_told_of() {
        let flags = read(&[
            "--vmodule=kubelet*=4",
            "--logging-format=json",
            "--log-flush-frequency=5s",
            "--log-json-info-buffer-size=0",
            "--log-json-split-stream",
            "--log-text-info-buffer-size=0",
            "--log-text-split-stream=false",
        ]);
        let remarks = flags.remarks();
        assert_eq!(remarks.len(), 5, "{remarks:?}");
        assert!(remarks[0].contains("--log-level"), "{remarks:?}");
        let log = flags.over(&Logging::default()).unwrap();
        assert_eq!(log.format, LogFormat::Json);
        assert!(Alone::try_parse_from(["node", "--logging-format=xml"]).is_err());
    }
}
