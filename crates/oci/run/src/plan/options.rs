//! Mount options in the notation of `mount(8)` and the OCI specification.

use crate::sys::MountAttr;

/// The parsed options of a mount.
#[derive(Debug, Default)]
pub(crate) struct MountOptions {
    /// Attributes of the mount alone.
    pub(crate) attr: MountAttr,
    /// Whether an option sets the atime mode, rather than clears one.
    says_atime: bool,
    /// Whether any option concerns the mount alone.
    says_any: bool,
    /// Attributes of the mount and all mounts below it.
    pub(crate) recursive_attr: MountAttr,
    /// Propagation flags (`MS_SHARED` …) in order, each with whether it is recursive.
    pub(crate) propagation: Vec<(u64, bool)>,
    pub(crate) bind: bool,
    pub(crate) rbind: bool,
    pub(crate) remount: bool,
    /// Whether the content of the hidden directory is copied into the mount.
    pub(crate) copy_up: bool,
    pub(crate) idmap: Option<Idmap>,
    /// Options of the file system itself.
    pub(crate) data: Vec<(String, Option<String>)>,
    /// Whether the superblock is read-only.
    pub(crate) read_only: bool,
}

/// The scope of an ID mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idmap {
    Mount,
    Tree,
}

/// Names of the supported options, for `features`.
pub(crate) const KNOWN: &[&str] = &[
    "acl",
    "async",
    "atime",
    "bind",
    "defaults",
    "dev",
    "diratime",
    "dirsync",
    "exec",
    "idmap",
    "iversion",
    "lazytime",
    "loud",
    "mand",
    "noacl",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "noiversion",
    "nolazytime",
    "nomand",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nosymfollow",
    "private",
    "ratime",
    "rbind",
    "rdev",
    "rdiratime",
    "relatime",
    "remount",
    "rexec",
    "ridmap",
    "rnoatime",
    "rnodev",
    "rnodiratime",
    "rnoexec",
    "rnorelatime",
    "rnostrictatime",
    "rnosuid",
    "rnosymfollow",
    "ro",
    "rprivate",
    "rrelatime",
    "rro",
    "rrw",
    "rshared",
    "rslave",
    "rstrictatime",
    "rsuid",
    "rsymfollow",
    "runbindable",
    "rw",
    "shared",
    "silent",
    "slave",
    "strictatime",
    "suid",
    "symfollow",
    "sync",
    "tmpcopyup",
    "unbindable",
];

impl MountOptions {
    pub(crate) fn parse(options: &[String]) -> Self {
        let mut parsed = Self::default();
        for option in options {
            parsed.take(option);
        }
        parsed
    }

    /// Returns the attribute changes for a bind mount. As with a remount by `mount(2)`, and with runc, any option sets
    /// all attributes: those not named are cleared, except the atime mode. With `locked`, in another user namespace,
    /// attributes that protect the host's mount stay.
    pub(crate) fn of_bind(&self, locked: bool) -> MountAttr {
        let mut attr = self.attr;
        if !self.says_any {
            return attr;
        }
        let times = MountAttr::ATIME | MountAttr::NODIRATIME;
        if self.says_atime {
            attr.clear |= MountAttr::ATIME | MountAttr::NODIRATIME;
        } else {
            attr.set &= !times;
            attr.clear &= !times;
        }
        attr.clear |= MountAttr::NOSYMFOLLOW;
        if !locked {
            attr.clear |=
                MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC;
        }
        attr
    }

    fn take(&mut self, option: &str) {
        if let Some((set, clear)) = attribute(option) {
            apply(&mut self.attr, set, clear);
            self.says_any = true;
            self.says_atime |= matches!(
                option,
                "noatime" | "nodiratime" | "relatime" | "strictatime"
            );
            if option == "ro" || option == "rw" {
                self.read_only = option == "ro";
            }
            return;
        }
        if let Some((set, clear)) = option.strip_prefix('r').and_then(attribute) {
            apply(&mut self.recursive_attr, set, clear);
            return;
        }
        match option {
            "bind" => self.bind = true,
            "rbind" => (self.bind, self.rbind) = (true, true),
            "remount" => self.remount = true,
            "tmpcopyup" => self.copy_up = true,
            "idmap" => self.idmap = Some(Idmap::Mount),
            "ridmap" => self.idmap = Some(Idmap::Tree),
            "defaults" | "loud" | "silent" | "nomand" | "noiversion" | "nolazytime" | "async"
            | "noacl" | "" => {}
            "sync" | "dirsync" | "mand" | "lazytime" | "iversion" | "acl" => {
                self.data.push((option.to_owned(), None));
            }
            _ => {
                if let Some(propagation) = propagation(option) {
                    self.propagation.push(propagation);
                } else {
                    let (key, value) = match option.split_once('=') {
                        Some((key, value)) => (key, Some(value.to_owned())),
                        None => (option, None),
                    };
                    self.data.push((key.to_owned(), value));
                }
            }
        }
    }
}

/// Returns the attributes that an option sets and clears.
fn attribute(option: &str) -> Option<(u64, u64)> {
    use MountAttr as A;
    Some(match option {
        "ro" => (A::RDONLY, 0),
        "rw" => (0, A::RDONLY),
        "nosuid" => (A::NOSUID, 0),
        "suid" => (0, A::NOSUID),
        "nodev" => (A::NODEV, 0),
        "dev" => (0, A::NODEV),
        "noexec" => (A::NOEXEC, 0),
        "exec" => (0, A::NOEXEC),
        "noatime" => (A::NOATIME, A::ATIME),
        "atime" | "relatime" | "norelatime" | "nostrictatime" => (0, A::ATIME),
        "strictatime" => (A::STRICTATIME, A::ATIME),
        "nodiratime" => (A::NODIRATIME, 0),
        "diratime" => (0, A::NODIRATIME),
        "nosymfollow" => (A::NOSYMFOLLOW, 0),
        "symfollow" => (0, A::NOSYMFOLLOW),
        _ => return None,
    })
}

/// Sets and clears attributes; the last option for a bit wins.
fn apply(attr: &mut MountAttr, set: u64, clear: u64) {
    attr.set = attr.set & !clear | set;
    // The bits of the atime mode are cleared together, or not at all.
    let single = set & !MountAttr::ATIME;
    attr.clear = (attr.clear & !single) | clear;
}

fn propagation(option: &str) -> Option<(u64, bool)> {
    let flag = |name: &str| match name {
        "shared" => Some(libc::MS_SHARED),
        "slave" => Some(libc::MS_SLAVE),
        "private" => Some(libc::MS_PRIVATE),
        "unbindable" => Some(libc::MS_UNBINDABLE),
        _ => None,
    };
    flag(option)
        .map(|flag| (flag, false))
        .or_else(|| Some((flag(option.strip_prefix('r')?)?, true)))
}

/// Parses `linux.rootfsPropagation`.
pub(crate) fn root_propagation(word: &str) -> Option<(u64, bool)> {
    propagation(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> MountOptions {
        MountOptions::parse(&options.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_become_what_the_kernel_takes() {
        let parsed = parse(&[
            "rbind", "rslave", "ro", "nosuid", "rro", "noatime", "size=64k", "huge",
        ]);
        assert!(parsed.bind && parsed.rbind && parsed.read_only);
        assert_eq!(
            parsed.attr.set,
            MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NOATIME
        );
        assert_eq!(parsed.attr.clear, MountAttr::ATIME);
        assert_eq!(parsed.recursive_attr.set, MountAttr::RDONLY);
        assert_eq!(parsed.propagation, [(libc::MS_SLAVE, true)]);
        assert_eq!(
            parsed.data,
            [
                ("size".to_owned(), Some("64k".to_owned())),
                ("huge".to_owned(), None)
            ]
        );
    }

    #[test]
    fn the_last_word_counts() {
        let parsed = parse(&["ro", "rw", "noexec", "exec", "dev", "nodev"]);
        assert_eq!(parsed.attr.set, MountAttr::NODEV);
        assert_eq!(parsed.attr.clear, MountAttr::RDONLY | MountAttr::NOEXEC);
        assert!(!parsed.read_only);
    }

    #[test]
    fn what_is_said_to_be_known_is_no_data() {
        for option in KNOWN {
            let parsed = parse(&[option]);
            let passed_on =
                ["sync", "dirsync", "mand", "lazytime", "iversion", "acl"].contains(option);
            assert_eq!(parsed.data.is_empty(), !passed_on, "{option}");
        }
    }
}
