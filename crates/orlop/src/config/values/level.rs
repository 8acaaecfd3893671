//! Filter of log lines by level.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter as Level;
use tracing_subscriber::filter::Targets;

use super::text::text_value;

/// A level for orlop (`info`), or one per module (`info,orlop_image=debug`).
///
/// The libraries that orlop uses log only warnings unless they are named (`info,h2=debug`), and never more than
/// `debug`: finer levels print network traffic, including secrets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelFilter {
    text: String,
    targets: Targets,
}

impl LevelFilter {
    /// Converts the filter for the logging library.
    pub(crate) fn targets(&self) -> Targets {
        self.targets.clone()
    }
}

/// Prefix of the names of all orlop crates.
const OWN: &str = "orlop";

impl FromStr for LevelFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut targets = Targets::new()
            .with_default(Level::WARN)
            .with_target(OWN, Level::INFO);
        for part in text.split(',') {
            match part.split_once('=') {
                None => {
                    let level = level(part)?;
                    targets = targets
                        .with_default(level.min(Level::WARN))
                        .with_target(OWN, level);
                }
                Some(("", _)) => return Err(format!("{part:?} has no module before the `=`")),
                Some((module, word)) => {
                    let level = level(word)?;
                    if level > Level::DEBUG && !module.starts_with(OWN) {
                        return Err(format!(
                            "{module:?} is a library that logs secrets at level {word}; debug is \
                             the maximum",
                        ));
                    }
                    targets = targets.with_target(module, level);
                }
            }
        }
        Ok(Self {
            text: text.to_owned(),
            targets,
        })
    }
}

fn level(word: &str) -> Result<Level, String> {
    Ok(match word {
        "off" => Level::OFF,
        "error" => Level::ERROR,
        "warn" => Level::WARN,
        "info" => Level::INFO,
        "debug" => Level::DEBUG,
        "trace" => Level::TRACE,
        other => {
            return Err(format!(
                "{other:?} is not one of off, error, warn, info, debug, trace",
            ));
        }
    })
}

impl Default for LevelFilter {
    fn default() -> Self {
        let targets = Targets::new()
            .with_default(Level::WARN)
            .with_target(OWN, Level::INFO);
        Self {
            text: "info".to_owned(),
            targets,
        }
    }
}

impl fmt::Display for LevelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_value!(LevelFilter, "log level");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_info_means() {
        assert_eq!(LevelFilter::default(), "info".parse().unwrap());
    }

    #[test]
    fn a_misspelt_level_is_not_taken_for_a_module() {
        for wrong in [
            "",
            "inof",
            "INFO",
            "info,debg",
            "=debug",
            "orlop_image=loud",
        ] {
            assert!(wrong.parse::<LevelFilter>().is_err(), "{wrong:?} was taken");
        }
        assert!(
            "warn,orlop_image::pull=trace"
                .parse::<LevelFilter>()
                .is_ok()
        );
    }

    #[test]
    fn libraries_print_neither_noise_nor_secrets() {
        use tracing::Level as Of;
        let filter: LevelFilter = "trace".parse().unwrap();
        assert!(filter.targets.would_enable("orlop_image::pull", &Of::TRACE));
        assert!(!filter.targets.would_enable("h2::codec", &Of::INFO));
        assert!("h2=trace".parse::<LevelFilter>().is_err());
        let named: LevelFilter = "info,h2=debug".parse().unwrap();
        assert!(named.targets.would_enable("h2::codec", &Of::DEBUG));
        assert!(!named.targets.would_enable("orlop::rpc", &Of::DEBUG));
    }
}
