//! Resource limits of processes, as in setrlimit(2).

use orlop_engine::config::Rlimit;

use super::text::text_value;

/// The resources of setrlimit(2), without the prefix `RLIMIT_`.
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

/// Prefix of a resource name in the kernel and OCI.
const PREFIX: &str = "RLIMIT_";

/// Parses a resource limit: `nofile=1024:4096`, or `core=0` for both the soft and the hard limit.
fn read(text: &str) -> Result<Rlimit, String> {
    let wrong = || format!("{text:?} is not a limit such as nofile=1024:4096");
    let (name, limits) = text.split_once('=').ok_or_else(wrong)?;
    let resource = RESOURCES
        .into_iter()
        .find(|resource| *resource == name)
        .ok_or_else(|| {
            format!(
                "{name:?} is not a known resource limit; use one of {}",
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
        return Err(format!("{text:?} has a soft limit above its hard limit"));
    }
    Ok(Rlimit {
        kind: format!("{PREFIX}{}", resource.to_ascii_uppercase()),
        hard,
        soft,
    })
}

/// Returns the name of the resource in setrlimit(2), in lower case and without `RLIMIT_`.
pub(crate) fn resource(limit: &Rlimit) -> String {
    limit.kind.trim_start_matches(PREFIX).to_ascii_lowercase()
}

fn write(limit: &Rlimit) -> String {
    let bound = |limit: u64| match limit {
        u64::MAX => "unlimited".to_owned(),
        number => number.to_string(),
    };
    format!(
        "{}={}:{}",
        resource(limit),
        bound(limit.soft),
        bound(limit.hard)
    )
}

text_value!(Rlimit, "resource limit", read, write);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_soft_and_hard() {
        let read_back = |text: &str| read(text).map(|limit| write(&limit));
        assert_eq!(read_back("nofile=1024:4096").unwrap(), "nofile=1024:4096");
        assert_eq!(
            read_back("core=unlimited").unwrap(),
            "core=unlimited:unlimited"
        );
        for wrong in ["nofile", "nofile=", "files=1", "nofile=2:1", "core=-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
