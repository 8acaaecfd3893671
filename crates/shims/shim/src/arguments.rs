//! The command line: runc's, plus options for the shim.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// The options before the command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) root: PathBuf,
    pub(crate) log: Option<PathBuf>,
    pub(crate) systemd_cgroup: bool,
    /// The path of the shim's program.
    pub(crate) shim: PathBuf,
    /// Its configuration file.
    pub(crate) shim_config: Option<PathBuf>,
    /// The type of the options that pass the configuration; each shim has its own.
    pub(crate) config_type: Option<String>,
    /// Whether the options contain the file's content instead of its path.
    pub(crate) config_body: bool,
    /// Whether the shim's guests pull images themselves.
    pub(crate) guest_pull: bool,
    /// The creator of the sandboxes.
    pub(crate) sandboxer: Sandboxer,
    /// How the streams of processes are connected.
    pub(crate) io: Io,
    /// Instead of a shim: an OCI runtime whose containers need a sandbox container.
    pub(crate) inner: Option<Inner>,
}

/// An OCI runtime whose containers need a sandbox container.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
}

/// The creator of the sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sandboxer {
    /// A pause task in the shim.
    #[default]
    Podsandbox,
    /// The shim's Sandbox service.
    Shim,
    /// A Controller service at a socket.
    Proxy { address: PathBuf, name: String },
}

/// How streams are connected, under containerd's names (`io_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Io {
    /// As FIFOs.
    #[default]
    Fifo,
    /// As streams that the shim serves.
    Streaming,
}

/// The arguments of a command: flags, options with values, and positional arguments.
#[derive(Debug, Default)]
pub(crate) struct Words {
    options: Vec<(String, OsString)>,
    flags: Vec<String>,
    rest: Vec<OsString>,
}

/// Options that take a value.
const VALUED: [&str; 14] = [
    "--from",
    "--bundle",
    "--rootfs",
    "--pid-file",
    "--console-socket",
    "--process",
    "--resources",
    "--format",
    "--ready",
    "--exec",
    "--pod",
    "--lock",
    "--image-path",
    "--work-path",
];

/// Splits the command line into settings, command and arguments.
pub(crate) fn parse(
    mut words: impl Iterator<Item = OsString>,
) -> Result<(Settings, String, Words)> {
    let mut settings = Settings::default();
    let command = loop {
        let word = words
            .next()
            .ok_or_else(|| usage("the command is missing"))?;
        let name = word.to_string_lossy().into_owned();
        let mut value = || {
            let missing = || usage(format!("{name} needs a value"));
            words.next().ok_or_else(missing)
        };
        match name.as_str() {
            "--root" => settings.root = value()?.into(),
            "--log" => settings.log = Some(value()?.into()),
            "--log-format" => drop(value()?),
            "--shim" => settings.shim = value()?.into(),
            "--shim-config" => settings.shim_config = Some(value()?.into()),
            "--config-type" => {
                settings.config_type = Some(value()?.to_string_lossy().into_owned());
            }
            "--config-body" => settings.config_body = true,
            "--guest-pull" => settings.guest_pull = true,
            "--sandboxer" => {
                settings.sandboxer = match value()?.to_str() {
                    Some("shim") => Sandboxer::Shim,
                    Some("podsandbox") => Sandboxer::Podsandbox,
                    _ => return Err(usage("--sandboxer must be podsandbox or shim")),
                }
            }
            "--controller" => {
                let address = value()?.into();
                let name = value()?.to_string_lossy().into_owned();
                settings.sandboxer = Sandboxer::Proxy { address, name };
            }
            "--inner" => {
                settings.inner = Some(Inner {
                    program: value()?.into(),
                    args: Vec::new(),
                });
            }
            "--inner-arg" => match &mut settings.inner {
                Some(inner) => inner.args.push(value()?),
                None => return Err(usage("--inner-arg must follow --inner")),
            },
            "--io" => {
                settings.io = match &*value()?.to_string_lossy() {
                    "fifo" => Io::Fifo,
                    "streaming" => Io::Streaming,
                    other => {
                        return Err(usage(format!(
                            "--io must be fifo or streaming, not {other}"
                        )));
                    }
                };
            }
            "--systemd-cgroup" => settings.systemd_cgroup = true,
            "--version" | "-v" => break "version".to_owned(),
            _ if name.starts_with('-') => return Err(usage(format!("unknown option {name}"))),
            _ => break name,
        }
    };
    let mut parsed = Words::default();
    while let Some(word) = words.next() {
        let name = word.to_string_lossy().into_owned();
        if VALUED.contains(&name.as_str()) {
            let value = words.next();
            let value = value.ok_or_else(|| usage(format!("{name} needs a value")))?;
            parsed.options.push((name, value));
        } else if name.starts_with('-') {
            parsed.flags.push(name);
        } else {
            parsed.rest.push(word);
        }
    }
    Ok((settings, command, parsed))
}

impl Settings {
    /// Formats the settings for another process of this program.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--root".into(), self.root.clone().into()];
        match &self.inner {
            Some(inner) => {
                words.extend(["--inner".into(), inner.program.clone().into()]);
                for arg in &inner.args {
                    words.extend(["--inner-arg".into(), arg.clone()]);
                }
            }
            None => words.extend(["--shim".into(), self.shim.clone().into()]),
        }
        if let Some(config) = &self.shim_config {
            words.extend(["--shim-config".into(), config.clone().into()]);
        }
        if let Some(kind) = &self.config_type {
            words.extend(["--config-type".into(), kind.into()]);
        }
        for (is_so, word) in [
            (self.config_body, "--config-body"),
            (self.guest_pull, "--guest-pull"),
        ] {
            words.extend(is_so.then(|| word.into()));
        }
        match &self.sandboxer {
            Sandboxer::Podsandbox => {}
            Sandboxer::Shim => words.extend(["--sandboxer".into(), "shim".into()]),
            Sandboxer::Proxy { address, name } => {
                words.extend(["--controller".into(), address.into(), name.into()]);
            }
        }
        if self.io == Io::Streaming {
            words.extend(["--io".into(), "streaming".into()]);
        }
        if self.systemd_cgroup {
            words.push("--systemd-cgroup".into());
        }
        words
    }
}

impl Words {
    pub(crate) fn option(&self, name: &str) -> Option<PathBuf> {
        let mut same = self.options.iter().filter(|(option, _)| option == name);
        same.next().map(|(_, value)| value.into())
    }

    pub(crate) fn needed(&self, name: &str) -> Result<PathBuf> {
        let missing = || usage(format!("{name} is missing"));
        self.option(name).ok_or_else(missing)
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|word| word == flag)
    }

    /// Returns the positional argument at an index after the command.
    pub(crate) fn word(&self, at: usize) -> Result<String> {
        let word = self.rest.get(at).and_then(|word| word.to_str());
        let word = word.ok_or_else(|| usage("the container ID is missing"))?;
        Ok(word.to_owned())
    }
}

fn usage(problem: impl Into<String>) -> Error {
    Error::Usage(problem.into())
}

#[cfg(test)]
mod tests {
    use super::{Io, parse};

    fn words(line: &str) -> impl Iterator<Item = std::ffi::OsString> {
        line.split(' ').map(Into::into)
    }

    #[test]
    fn settings_stand_before_the_command_and_options_behind() {
        let line = "--root /r --log /l --log-format json --systemd-cgroup --shim /s \
                    --config-type t --config-body --guest-pull --io streaming create \
                    --bundle /b --no-pivot --pid-file /p c1";
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let (settings, command, parsed) = parse(words(&line)).unwrap();
        assert_eq!(command, "create");
        assert_eq!(settings.root.to_str(), Some("/r"));
        assert!(settings.systemd_cgroup);
        assert_eq!(parsed.needed("--bundle").unwrap().to_str(), Some("/b"));
        assert!(parsed.has("--no-pivot"));
        assert_eq!(parsed.word(0).unwrap(), "c1");
        let again = parse(settings.words().into_iter().chain(["state".into()])).unwrap();
        let again = super::Settings {
            log: settings.log.clone(),
            ..again.0
        };
        assert_eq!(format!("{again:?}"), format!("{settings:?}"));
        assert_eq!(again.io, Io::Streaming);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (line, named) in [
            ("--root", "--root"),
            ("--rot /r create", "--rot"),
            ("--root /r", "command"),
            ("--root /r create --bundle", "--bundle"),
        ] {
            let error = parse(words(line)).unwrap_err().to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
