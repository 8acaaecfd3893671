//! CRIU's messages (`images/rpc.proto`): what is asked for, and what it answers.

use std::collections::BTreeMap;

use super::Options;
use super::wire::{Value, Writer, fields};
use crate::error::Result;

/// What is asked for, and what an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) u64);

impl Kind {
    pub(super) const DUMP: Self = Self(1);
    pub(super) const RESTORE: Self = Self(2);
    pub(super) const PRE_DUMP: Self = Self(4);
    pub(super) const NOTIFY: Self = Self(6);
    pub(super) const FEATURE_CHECK: Self = Self(9);

    const NAMES: [&str; 14] = [
        "EMPTY",
        "DUMP",
        "RESTORE",
        "CHECK",
        "PRE_DUMP",
        "PAGE_SERVER",
        "NOTIFY",
        "CPUINFO_DUMP",
        "CPUINFO_CHECK",
        "FEATURE_CHECK",
        "VERSION",
        "WAIT_PID",
        "PAGE_SERVER_CHLD",
        "SINGLE_PRE_DUMP",
    ];

    pub(super) fn name(self) -> String {
        let name = usize::try_from(self.0)
            .ok()
            .and_then(|at| Self::NAMES.get(at));
        name.map_or_else(|| self.0.to_string(), |name| (*name).to_owned())
    }
}

/// What CRIU does about cgroups (`criu_cg_mode`), by the names of `--manage-cgroups-mode`.
pub(crate) const CGROUP_MODES: [(&str, u64); 5] = [
    ("", 6),
    ("soft", 3),
    ("full", 4),
    ("strict", 5),
    ("ignore", 0),
];

/// The annotation that names a file of settings for CRIU.
const CONFIG_FILE: &str = "org.criu.config";
/// The file where there is no such annotation.
const USUAL_CONFIG_FILE: &str = "/etc/criu/runc.conf";

/// How much CRIU tells its log: all but what is for its own developers.
const LOG_LEVEL: i32 = 4;

/// Options of a request (`criu_opts`), of which some are for both sides.
#[derive(Debug, Default)]
pub(super) struct Opts(pub(super) Writer);

impl Opts {
    /// Those that both sides have.
    pub(super) fn new(
        options: &Options,
        log: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let mut opts = Writer::default();
        opts.int(9, LOG_LEVEL);
        opts.text(10, log);
        // Who tells what is to be done with cgroups tells that anything is.
        opts.flag(24, true);
        opts.number(34, options.cgroups_mode);
        opts.flag(12, true);
        opts.flag(4, options.ext_unix_sk);
        opts.flag(5, options.tcp_established);
        opts.flag(7, options.shell_job);
        opts.flag(8, options.file_locks);
        opts.flag(16, options.auto_dedup);
        opts.flag(48, options.lazy_pages);
        opts.flag(50, true);
        // Network devices and what is set of them are not the runtime's, ever.
        opts.number(38, libc::CLONE_NEWNET as u64);
        match annotations.get(CONFIG_FILE).map(String::as_str) {
            None => opts.text(51, USUAL_CONFIG_FILE),
            Some("") => {}
            Some(file) => opts.text(51, file),
        }
        Self(opts)
    }

    /// The directories of images and logs, by descriptors of the process that made the sockets.
    pub(super) fn directories(&mut self, images: i32, work: Option<i32>) {
        self.0.int(1, images);
        if let Some(work) = work {
            self.0.int(17, work);
        }
    }

    /// A mount that is not the container's own: when written out where it is and what it is called,
    /// when restored what it is called and its source.
    pub(super) fn mount(&mut self, key: &str, value: &str) {
        self.0.message(23, |mount| {
            mount.text(1, key);
            mount.text(2, value);
        });
    }

    /// Something else that is not the container's own.
    pub(super) fn external(&mut self, what: &str) {
        self.0.text(37, what);
    }

    /// What is not the container's own and is there already, by a descriptor that CRIU has.
    pub(super) fn inherit(&mut self, key: &str, fd: i32) {
        self.0.message(27, |inherit| {
            inherit.text(1, key);
            inherit.int(2, fd);
        });
    }

    /// A namespace to be joined.
    pub(super) fn join(&mut self, kind: &str, file: &str) {
        self.0.message(39, |join| {
            join.text(1, kind);
            join.text(2, file);
        });
    }

    /// Where a hierarchy of cgroups begins for the container.
    pub(super) fn cgroup(&mut self, controller: &str, path: &str) {
        self.0.message(25, |root| {
            root.text(1, controller);
            root.text(2, path);
        });
    }

    /// A request with these.
    pub(super) fn request(self, kind: Kind) -> Vec<u8> {
        let mut request = Writer::default();
        request.number(1, kind.0);
        request.bytes(2, &self.0.into_bytes());
        request.into_bytes()
    }
}

/// A question whether CRIU and the kernel can do something, by the number of its field.
pub(super) fn feature_check(feature: u32) -> Vec<u8> {
    let mut request = Writer::default();
    request.number(1, Kind::FEATURE_CHECK.0);
    request.message(5, |features| features.flag(feature, true));
    request.into_bytes()
}

/// The answer that a notice waits for.
pub(super) fn noticed() -> Vec<u8> {
    let mut request = Writer::default();
    request.number(1, Kind::NOTIFY.0);
    request.flag(3, true);
    request.into_bytes()
}

/// An answer (`criu_resp`).
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) kind: Kind,
    pub(super) success: bool,
    /// What a notice is about, and the process that it names.
    pub(super) notice: String,
    pub(super) pid: i32,
    pub(super) errno: i32,
    /// The features that were asked for and are there.
    pub(super) features: Vec<u32>,
}

impl Answer {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut answer = Self {
            kind: Kind(0),
            success: false,
            notice: String::new(),
            pid: 0,
            errno: 0,
            features: Vec::new(),
        };
        for (field, value) in fields(bytes)? {
            match (field, value) {
                (1, value) => answer.kind = Kind(value.number()),
                (2, value) => answer.success = value.number() != 0,
                (5, Value::Bytes(notify)) => {
                    for (field, value) in fields(notify)? {
                        match field {
                            1 => answer.notice = value.text(),
                            2 => answer.pid = value.number() as i32,
                            _ => {}
                        }
                    }
                }
                (7, value) => answer.errno = value.number() as i32,
                (8, Value::Bytes(features)) => {
                    let there = fields(features)?.into_iter();
                    let there = there.filter(|(_, value)| value.number() != 0);
                    answer.features = there.map(|(field, _)| field).collect();
                }
                _ => {}
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood() {
        let mut answer = Writer::default();
        answer.number(1, 6);
        answer.flag(2, true);
        answer.message(5, |notify| {
            notify.text(1, "post-restore");
            notify.int(2, 4711);
        });
        answer.message(8, |features| {
            features.flag(1, true);
            features.flag(2, false);
        });
        let answer = Answer::parse(&answer.into_bytes()).unwrap();
        assert_eq!(answer.kind, Kind::NOTIFY);
        assert_eq!((answer.notice.as_str(), answer.pid), ("post-restore", 4711));
        assert!(answer.success);
        assert_eq!(answer.features, [1]);
        assert_eq!(Kind(13).name(), "SINGLE_PRE_DUMP");
        assert_eq!(Kind(99).name(), "99");
    }
}
