//! crictl's configuration file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

/// Default path of the file.
pub(crate) const DEFAULT: &str = "/etc/crictl.yaml";

/// Options of the file; missing ones have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) runtime_endpoint: Option<String>,
    pub(crate) image_endpoint: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) debug: bool,
    pub(crate) pull_image_on_create: bool,
    pub(crate) disable_pull_on_run: bool,
    pub(crate) max_retries: Option<i32>,
}

/// Reads the whole file, which may be a pipe of the user's shell.
fn read(path: &Path) -> io::Result<String> {
    orlop_fs::read_whole_text(File::open(path)?, orlop_fs::SMALL_FILE)
}

impl Settings {
    /// Reads the file, or the default file, which may be missing.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let given = path.is_some();
        let path = path.map_or_else(|| PathBuf::from(DEFAULT), Path::to_owned);
        match read(&path) {
            Ok(text) => Self::parse(&text)
                .with_context(|| format!("cannot use the client configuration {}", path.display())),
            Err(error) if !given && error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Parses flat `key: value` lines of YAML.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut settings = Self::default();
        for (number, line) in text.lines().enumerate() {
            if let Some((key, value)) = entry(line) {
                settings
                    .set(key, &value)
                    .with_context(|| format!("line {}", number + 1))?;
            } else if !is_blank(line) {
                bail!(
                    "line {}: `{line}` is not in the form key: value",
                    number + 1
                );
            }
        }
        Ok(settings)
    }

    /// Sets an option from text.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let truth = || match value {
            "true" | "1" | "t" | "T" | "TRUE" | "True" => Ok(true),
            "false" | "0" | "f" | "F" | "FALSE" | "False" | "" => Ok(false),
            _ => bail!("`{key}` must be true or false, not `{value}`"),
        };
        let number = || {
            value
                .parse::<i32>()
                .with_context(|| format!("`{key}` must be a number, not `{value}`"))
        };
        let text = || (!value.is_empty()).then(|| value.to_owned());
        match key {
            "runtime-endpoint" => self.runtime_endpoint = text(),
            "image-endpoint" => self.image_endpoint = text(),
            "timeout" => {
                self.timeout = u64::try_from(number()?)
                    .ok()
                    .filter(|seconds| *seconds > 0)
                    .map(Duration::from_secs);
            }
            "debug" => self.debug = truth()?,
            "pull-image-on-create" => self.pull_image_on_create = truth()?,
            "disable-pull-on-run" => self.disable_pull_on_run = truth()?,
            "max-retries" => self.max_retries = Some(number()?),
            _ => bail!(
                "unknown option `{key}`; the options are {}",
                OPTIONS.join(", ")
            ),
        }
        Ok(())
    }

    /// Returns an option as text.
    pub(crate) fn get(&self, key: &str) -> anyhow::Result<String> {
        Ok(match key {
            "runtime-endpoint" => self.runtime_endpoint.clone().unwrap_or_default(),
            "image-endpoint" => self.image_endpoint.clone().unwrap_or_default(),
            "timeout" => self
                .timeout
                .map_or(0, |timeout| timeout.as_secs())
                .to_string(),
            "debug" => self.debug.to_string(),
            "pull-image-on-create" => self.pull_image_on_create.to_string(),
            "disable-pull-on-run" => self.disable_pull_on_run.to_string(),
            "max-retries" => self.max_retries.unwrap_or(0).to_string(),
            _ => bail!(
                "unknown option `{key}`; the options are {}",
                OPTIONS.join(", ")
            ),
        })
    }
}

/// All options, in the order crictl lists them.
pub(crate) const OPTIONS: [&str; 7] = [
    "runtime-endpoint",
    "image-endpoint",
    "timeout",
    "debug",
    "pull-image-on-create",
    "disable-pull-on-run",
    "max-retries",
];

/// Returns the key and value of a line, without quotes and comments.
pub(crate) fn entry(line: &str) -> Option<(&str, String)> {
    if is_blank(line) {
        return None;
    }
    let (key, value) = line.split_once(':')?;
    let value = value.trim();
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
        _ => value.split(" #").next().unwrap_or_default().trim(),
    };
    Some((key.trim().trim_matches('"'), value.to_owned()))
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#') || line == "---" || line == "{}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_crictl_is_read() {
        let settings = Settings::parse(
            "# comment\nruntime-endpoint: unix:///run/containerd/containerd.sock\n\
             image-endpoint: \"\"\ntimeout: 10 # seconds\ndebug: false\n\
             pull-image-on-create: true\n",
        )
        .unwrap();
        assert_eq!(
            settings.runtime_endpoint.as_deref(),
            Some("unix:///run/containerd/containerd.sock")
        );
        assert_eq!(settings.image_endpoint, None);
        assert_eq!(settings.timeout, Some(Duration::from_secs(10)));
        assert!(settings.pull_image_on_create && !settings.debug);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let error = |text: &str| format!("{:#}", Settings::parse(text).unwrap_err());
        assert!(error("debug: true\ntimeouts: 3\n").contains("line 2: unknown option `timeouts`"));
        assert!(error("timeout: soon").contains("`timeout` must be a number"));
        assert!(error("debug: maybe").contains("true or false"));
        assert!(error("rubbish").contains("key: value"));
    }
}
