//! The command line, compatible with runc: `orlop-run [GLOBAL FLAGS] VERB [FLAGS] ARGUMENTS`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::log::Format;
use crate::users;

/// A flag of a verb, or a global flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// The long name, after `--`.
    pub(crate) name: &'static str,
    /// The short name, after `-`.
    pub(crate) short: Option<char>,
    /// The name of its value; `None` for a switch.
    pub(crate) value: Option<&'static str>,
    /// The help text.
    pub(crate) help: &'static str,
}

/// Creates a switch.
pub(crate) const fn switch(name: &'static str, short: Option<char>, help: &'static str) -> Flag {
    Flag {
        name,
        short,
        value: None,
        help,
    }
}

/// Creates a flag that takes a value.
pub(crate) const fn valued(
    name: &'static str,
    short: Option<char>,
    value: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        short,
        value: Some(value),
        help,
    }
}

/// Flags of all verbs.
pub(crate) const GLOBAL: &[Flag] = &[
    switch("debug", None, "enable debug logging"),
    valued(
        "log",
        None,
        "FILE",
        "write log messages to this file (default: standard error)",
    ),
    valued(
        "log-format",
        None,
        "text|json",
        "set the log format (default: text)",
    ),
    valued(
        "root",
        None,
        "DIR",
        "directory for the state of containers (default: /run/orlop-run; $XDG_RUNTIME_DIR/orlop-run without root)",
    ),
    switch(
        "systemd-cgroup",
        None,
        "create cgroups with systemd; cgroupsPath has the form slice:prefix:name",
    ),
    valued(
        "rootless",
        None,
        "true|false|auto",
        "ignore cgroup permission errors (default: auto)",
    ),
    valued("criu", None, "PATH", "ignored; criu is searched in PATH"),
    switch("help", Some('h'), "show help"),
    switch("version", Some('v'), "print the version"),
];

/// Flags and arguments of a command line.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    flags: Vec<(&'static str, OsString)>,
    /// The arguments that are not flags.
    pub(crate) rest: Vec<OsString>,
}

/// The point where parsing of flags ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagsEnd {
    /// At the first argument: the rest belongs to a command.
    AtFirstArgument,
    /// Nowhere: flags may stand among the arguments.
    Nowhere,
}

impl Parsed {
    /// Parses flags.
    pub(crate) fn parse(
        words: impl IntoIterator<Item = OsString>,
        known: &[Flag],
        end: FlagsEnd,
    ) -> Result<Self> {
        let mut parsed = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            let looks_like_one = bytes.len() > 1 && bytes[0] == b'-' && !bytes[1].is_ascii_digit();
            if bytes == b"--" {
                parsed.rest.extend(words);
                break;
            }
            if !looks_like_one {
                parsed.rest.push(word);
                if end == FlagsEnd::AtFirstArgument {
                    parsed.rest.extend(words);
                    break;
                }
                continue;
            }
            let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
                Some(at) => (
                    &bytes[..at],
                    Some(OsString::from_vec(bytes[at + 1..].to_vec())),
                ),
                None => (bytes, None),
            };
            let name = String::from_utf8_lossy(name).into_owned();
            let unknown = || Error::new(format!("flag provided but not defined: {name}"));
            let stem = name.trim_start_matches('-');
            let flag = known
                .iter()
                .find(|flag| {
                    flag.name == stem || flag.short.is_some_and(|it| stem.chars().eq([it]))
                })
                .ok_or_else(unknown)?;
            let value = match (flag.value, value) {
                (_, Some(value)) => value,
                (None, None) => OsString::from("true"),
                (Some(_), None) => words
                    .next()
                    .ok_or_else(|| Error::new(format!("flag needs an argument: {name}")))?,
            };
            parsed.flags.push((flag.name, value));
        }
        Ok(parsed)
    }

    /// Returns the value of a flag; the last one counts.
    pub(crate) fn value(&self, name: &str) -> Option<&OsString> {
        self.values(name).last()
    }

    /// Returns all values of a flag that may be repeated.
    pub(crate) fn values(&self, name: &str) -> impl DoubleEndedIterator<Item = &OsString> {
        self.flags
            .iter()
            .filter(move |(flag, _)| *flag == name)
            .map(|(_, value)| value)
    }

    /// Returns the value of a flag as text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        self.value(name)
            .map(|value| {
                value.to_str().map(str::to_owned).ok_or_else(|| {
                    Error::new(format!("--{name}: {} is not valid UTF-8", value.display()))
                })
            })
            .transpose()
    }

    /// Returns the value of a flag as a path.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name)
            .filter(|it| !it.is_empty())
            .map(PathBuf::from)
    }

    /// Returns the value of a flag as a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let number = text
            .parse()
            .map_err(|_| Error::new(format!("--{name}: {text:?} is not a valid number")))?;
        Ok(Some(number))
    }

    /// Returns whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> Result<bool> {
        match self.text(name)?.as_deref() {
            None | Some("false" | "f" | "F" | "0" | "FALSE" | "False") => Ok(false),
            Some("true" | "t" | "T" | "1" | "TRUE" | "True") => Ok(true),
            Some(text) => Err(Error::new(format!(
                "--{name}: {text:?} is neither true nor false"
            ))),
        }
    }

    /// Returns the single required argument.
    pub(crate) fn only(&self, what: &str) -> Result<String> {
        match self.rest.as_slice() {
            [one] => text_of(one, what),
            [] => Err(Error::new(format!("{what} is missing"))),
            [_, second, ..] => Err(Error::new(format!(
                "unexpected argument {} after {what}",
                second.display()
            ))),
        }
    }
}

/// Returns an argument that must be valid UTF-8.
pub(crate) fn text_of(word: &OsString, what: &str) -> Result<String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(format!("{what}: {} is not valid UTF-8", word.display())))
}

/// Values of the global flags.
#[derive(Debug)]
pub(crate) struct Globals {
    pub(crate) root: PathBuf,
    pub(crate) root_is_default: bool,
    /// Whether the root is in the user's `XDG_RUNTIME_DIR`.
    pub(crate) root_is_users: bool,
    pub(crate) log: Option<PathBuf>,
    pub(crate) log_format: Format,
    pub(crate) debug: bool,
    pub(crate) systemd_cgroup: bool,
    /// The `--rootless` flag; detected if it is absent.
    rootless: Option<bool>,
}

impl Globals {
    /// Interprets the flags before the verb.
    pub(crate) fn of(parsed: &Parsed) -> Result<Self> {
        let log_format = match parsed.text("log-format")?.as_deref() {
            None | Some("text" | "") => Format::Text,
            Some("json") => Format::Json,
            Some(other) => return Err(Error::new(format!("invalid log-format {other:?}"))),
        };
        let rootless = match parsed.text("rootless")? {
            None => None,
            Some(text) if text.is_empty() || text.eq_ignore_ascii_case("auto") => None,
            Some(text) => match parsed.is_on("rootless") {
                Ok(on) => Some(on),
                Err(_) => {
                    return Err(Error::new(format!(
                        "--rootless: {text:?} is not true, false or auto"
                    )));
                }
            },
        };
        let given = parsed.path("root");
        let users_dir = if given.is_none() { user_dir() } else { None };
        Ok(Self {
            root_is_default: given.is_none(),
            root_is_users: users_dir.is_some(),
            root: given.unwrap_or_else(|| {
                let above = users_dir.unwrap_or_else(|| PathBuf::from("/run"));
                above.join("orlop-run")
            }),
            log: parsed.path("log"),
            log_format,
            debug: parsed.is_on("debug")?,
            systemd_cgroup: parsed.is_on("systemd-cgroup")?,
            rootless,
        })
    }

    /// Returns whether cgroup operations that only root may do are skipped.
    pub(crate) fn rootless(&self) -> bool {
        self.rootless
            .unwrap_or_else(|| !users::is_root() || users::are_not_the_hosts())
    }
}

/// Returns the user's runtime directory for containers. Root of a user namespace has one too, unless `USER` is root.
fn user_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty())?;
    let is_users = !users::is_root()
        || users::are_not_the_hosts() && std::env::var_os("USER").is_none_or(|user| user != "root");
    is_users.then(|| PathBuf::from(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Flag] = &[
        switch("tty", Some('t'), ""),
        valued("env", Some('e'), "NAME=VALUE", ""),
    ];

    fn parse(words: &[&str], end: FlagsEnd) -> Result<Parsed> {
        Parsed::parse(words.iter().map(OsString::from), KNOWN, end)
    }

    #[test]
    fn flags_of_the_command_are_its_own() {
        let parsed = parse(
            &["-t", "-e", "A=1", "--env=B=2", "c", "ls", "-t"],
            FlagsEnd::AtFirstArgument,
        )
        .unwrap();
        assert!(parsed.is_on("tty").unwrap());
        assert!(parsed.values("env").eq(["A=1", "B=2"]));
        assert_eq!(parsed.rest, ["c", "ls", "-t"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, said) in [
            (
                &["--nonsense", "c"][..],
                "flag provided but not defined: --nonsense",
            ),
            (&["-e"], "flag needs an argument: -e"),
        ] {
            let error = parse(words, FlagsEnd::Nowhere).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
        let parsed = parse(&["c", "-9", "--tty=maybe"], FlagsEnd::Nowhere).unwrap();
        assert_eq!(parsed.rest, ["c", "-9"]);
        assert!(parsed.is_on("tty").is_err());
    }
}
