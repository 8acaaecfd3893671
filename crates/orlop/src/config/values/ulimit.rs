//! Resource limits of processes, as setrlimit(2) knows them.

use std::fmt;
use std::str::FromStr;

use super::text::text_value;

/// A resource limit: `nofile=1024:4096` or, soft and hard alike, `core=0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ulimit {
    resource: &'static str,
    soft: u64,
    hard: u64,
}

/// The resources of setrlimit(2), less their `RLIMIT_`.
const RESOURCES: [&str; 16] = [
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

impl FromStr for Ulimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a limit such as nofile=1024:4096");
        let (name, limits) = text.split_once('=').ok_or_else(wrong)?;
        let resource = RESOURCES
            .into_iter()
            .find(|resource| *resource == name)
            .ok_or_else(|| {
                format!(
                    "{name:?} is not a resource that can be limited: {}",
                    RESOURCES.join(", ")
                )
            })?;
        let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
        let bound = |text: &str| match text {
            "unlimited" => Ok(u64::MAX),
            number => number.parse().map_err(|_| wrong()),
        };
        let (soft, hard) = (bound(soft)?, bound(hard)?);
        if soft > hard {
            return Err(format!("{text:?} has a soft limit above the hard one"));
        }
        Ok(Self {
            resource,
            soft,
            hard,
        })
    }
}

impl Ulimit {
    /// The resource as setrlimit(2) names it, less its `RLIMIT_` and in lower case, then
    /// the soft and the hard limit.
    pub(crate) fn parts(&self) -> (&'static str, u64, u64) {
        (self.resource, self.soft, self.hard)
    }
}

impl fmt::Display for Ulimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |limit: u64| match limit {
            u64::MAX => "unlimited".to_owned(),
            number => number.to_string(),
        };
        write!(
            f,
            "{}={}:{}",
            self.resource,
            bound(self.soft),
            bound(self.hard)
        )
    }
}

text_value!(Ulimit, "resource limit");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_soft_and_hard() {
        let read = |text: &str| text.parse::<Ulimit>().map(|limit| limit.to_string());
        assert_eq!(read("nofile=1024:4096").unwrap(), "nofile=1024:4096");
        assert_eq!(read("core=unlimited").unwrap(), "core=unlimited:unlimited");
        for wrong in ["nofile", "nofile=", "files=1", "nofile=2:1", "core=-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
