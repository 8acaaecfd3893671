//! Options of mounts, as `mount(8)` and the OCI write them.

use crate::sys::MountAttr;

/// What the options of a mount ask for.
#[derive(Debug, Default)]
pub(crate) struct MountOptions {
    /// Of the mount alone.
    pub(crate) attr: MountAttr,
    /// Whether it is said how times of access are kept, rather than how they are not.
    says_atime: bool,
    /// Whether anything is said of the mount alone.
    says_any: bool,
    /// Of it and all below it.
    pub(crate) recursive_attr: MountAttr,
    /// `MS_SHARED` … with whether all below is meant as well, in their order.
    pub(crate) propagation: Vec<(u64, bool)>,
    pub(crate) bind: bool,
    pub(crate) rbind: bool,
    pub(crate) remount: bool,
    /// The content of the directory that it hides is copied into it.
    pub(crate) copy_up: bool,
    pub(crate) idmap: Option<Idmap>,
    /// What the file system itself is told.
    pub(crate) data: Vec<(String, Option<String>)>,
    /// Superblock flags by their names.
    pub(crate) read_only: bool,
}

/// Whose ids are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idmap {
    Mount,
    Tree,
}

/// Names of the options that are understood, for `features`.
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

    /// What becomes of the attributes of what is bound. As `mount(2)` has it for a remount, and runc does: whoever
    /// says anything says all, and what is not said is cleared; times of access stay as they are kept unless it is
    /// said how they are to be. Where the users are others, `locked`, what protects the host's mount stays.
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

/// What an option sets and clears of a mount.
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

/// The last word on a bit counts.
fn apply(attr: &mut MountAttr, set: u64, clear: u64) {
    attr.set = attr.set & !clear | set;
    // All ways of keeping times of access are cleared together, or none.
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

/// `linux.rootfsPropagation`.
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
