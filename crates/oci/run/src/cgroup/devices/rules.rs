//! Device rules with the semantics of the cgroup v1 device controller.

use std::collections::BTreeMap;
use std::fmt;

use orlop_oci_types::{Device, DeviceKind, DeviceRule};

use crate::error::{Error, Result};

/// Allowed devices: all but some exceptions, or none but some exceptions.
///
/// Rules are applied in order. A rule for all devices (`a`) starts over; a rule that changes nothing is left out.
/// Cgroup v1 silently ignores a rule that would make a hole in a rule for several devices. That is refused here, with
/// both versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) all_but: bool,
    pub(crate) exceptions: BTreeMap<Which, Access>,
}

/// Devices, ordered as rules are written: those for many devices first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Which {
    pub(crate) major: Option<u32>,
    pub(crate) minor: Option<u32>,
    pub(crate) kind: Kind,
}

/// The type of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Block,
    Char,
}

/// Access to a device, as bits of `BPF_DEVCG_ACC_…`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) u8);

const LETTERS: [(char, u8); 3] = [
    ('r', Access::READ),
    ('w', Access::WRITE),
    ('m', Access::MAKE),
];

impl Access {
    pub(crate) const MAKE: u8 = 1;
    pub(crate) const READ: u8 = 2;
    pub(crate) const WRITE: u8 = 4;
    pub(crate) const ALL: Self = Self(7);
}

/// Rules for every container: make any node, and use the default devices. If the configuration has its own node at one
/// of these paths, its rules decide about that node.
const ALWAYS: [(&str, Which, Access); 11] = {
    const fn char(major: u32, minor: Option<u32>) -> Which {
        Which {
            major: Some(major),
            minor,
            kind: Kind::Char,
        }
    }
    const fn any(kind: Kind) -> Which {
        Which {
            major: None,
            minor: None,
            kind,
        }
    }
    [
        ("", any(Kind::Char), Access(Access::MAKE)),
        ("", any(Kind::Block), Access(Access::MAKE)),
        ("/dev/null", char(1, Some(3)), Access::ALL),
        ("/dev/random", char(1, Some(8)), Access::ALL),
        ("/dev/full", char(1, Some(7)), Access::ALL),
        ("/dev/tty", char(5, Some(0)), Access::ALL),
        ("/dev/zero", char(1, Some(5)), Access::ALL),
        ("/dev/urandom", char(1, Some(9)), Access::ALL),
        // The pseudo-terminals and their multiplexer.
        ("", char(136, None), Access::ALL),
        ("", char(5, Some(2)), Access::ALL),
        // /dev/net/tun, which runc allows and existing containers rely on.
        ("", char(10, Some(200)), Access::ALL),
    ]
};

impl Rules {
    /// Returns the rules of a configuration together with those for every container.
    pub(crate) fn of(rules: &[DeviceRule], nodes: &[Device]) -> Result<Self> {
        let mut all = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            let told = |problem: String| {
                Error::new(problem).within(format!("linux.resources.devices[{at}]"))
            };
            if rule.access.is_empty() {
                return Err(Error::new(format!(
                    "device access at {at} field cannot be empty"
                )));
            }
            let access = Access::parse(&rule.access).map_err(told)?;
            let kind = match rule.kind {
                None | Some(DeviceKind::All) => {
                    all = Self {
                        all_but: rule.allow,
                        ..Self::default()
                    };
                    continue;
                }
                Some(DeviceKind::Block) => Kind::Block,
                Some(DeviceKind::Char) => Kind::Char,
                Some(DeviceKind::Fifo) => {
                    return Err(told(
                        "a FIFO is not a device; use the type a, b or c".to_owned(),
                    ));
                }
            };
            let which = Which {
                major: number(rule.major).map_err(told)?,
                minor: number(rule.minor).map_err(told)?,
                kind,
            };
            all.apply(rule.allow, which, access).map_err(told)?;
        }
        for (path, which, access) in ALWAYS {
            if path.is_empty() || !nodes.iter().any(|node| node.path == path) {
                all.apply(true, which, access).map_err(Error::new)?;
            }
        }
        Ok(all)
    }

    fn apply(&mut self, allow: bool, which: Which, access: Access) -> Result<(), String> {
        if allow != self.all_but {
            self.exceptions.entry(which).or_default().0 |= access.0;
            return Ok(());
        }
        let wider = [
            Which {
                major: None,
                ..which
            },
            Which {
                minor: None,
                ..which
            },
            Which {
                major: None,
                minor: None,
                ..which
            },
        ];
        for wider in wider.into_iter().filter(|it| *it != which) {
            let there = self.exceptions.get(&wider).copied().unwrap_or_default();
            if there.0 & access.0 != 0 {
                return Err(format!(
                    "requested rule [{which} {access}] not supported by devices cgroupv1 (cannot punch hole in existing wildcard rule [{wider} {there}])"
                ));
            }
        }
        if let Some(there) = self.exceptions.get_mut(&which) {
            there.0 &= !access.0;
            if there.0 == 0 {
                self.exceptions.remove(&which);
            }
        }
        Ok(())
    }
}

/// Returns a device number; -1 or none stands for all.
fn number(number: Option<i64>) -> Result<Option<u32>, String> {
    match number {
        None | Some(-1) => Ok(None),
        Some(number) => u32::try_from(number)
            .map(Some)
            .map_err(|_| format!("{number} is not a valid device number")),
    }
}

impl Access {
    fn parse(letters: &str) -> Result<Self, String> {
        let mut access = 0;
        for letter in letters.chars() {
            let known = LETTERS.iter().find(|(it, _)| *it == letter);
            let (_, bit) =
                known.ok_or_else(|| format!("access {letters:?} may only contain r, w and m"))?;
            access |= bit;
        }
        Ok(Self(access))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = LETTERS.iter().filter(|(_, bit)| self.0 & bit != 0);
        letters
            .map(|(letter, _)| *letter)
            .try_for_each(|it| write!(f, "{it}"))
    }
}

impl fmt::Display for Which {
    /// Formats a rule for `devices.allow`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number =
            |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |it| it.to_string());
        let kind = match self.kind {
            Kind::Block => 'b',
            Kind::Char => 'c',
        };
        write!(f, "{kind} {}:{}", number(self.major), number(self.minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(allow: bool, kind: DeviceKind, major: i64, minor: i64, access: &str) -> DeviceRule {
        DeviceRule {
            allow,
            kind: Some(kind),
            major: Some(major),
            minor: Some(minor),
            access: access.to_owned(),
        }
    }

    fn lines(rules: &Rules) -> Vec<String> {
        let each = rules.exceptions.iter();
        each.map(|(which, access)| format!("{which} {access}"))
            .collect()
    }

    #[test]
    fn without_rules_there_is_what_every_container_has() {
        let rules = Rules::of(&[], &[]).unwrap();
        assert!(!rules.all_but);
        assert_eq!(
            lines(&rules),
            [
                "b *:* m",
                "c *:* m",
                "c 1:3 rwm",
                "c 1:5 rwm",
                "c 1:7 rwm",
                "c 1:8 rwm",
                "c 1:9 rwm",
                "c 5:0 rwm",
                "c 5:2 rwm",
                "c 10:200 rwm",
                "c 136:* rwm",
            ]
        );
    }

    #[test]
    fn the_last_rule_for_all_begins_anew() {
        let all = DeviceRule {
            allow: true,
            access: "rwm".into(),
            ..DeviceRule::default()
        };
        let none = DeviceRule {
            allow: false,
            ..all.clone()
        };
        let rules = Rules::of(&[none.clone(), all.clone()], &[]).unwrap();
        assert!(rules.all_but);
        assert!(rules.exceptions.is_empty(), "{rules:?}");
        let fuse = rule(true, DeviceKind::Char, 10, 229, "rw");
        let rules = Rules::of(&[all, none, fuse], &[]).unwrap();
        assert!(!rules.all_but);
        assert!(lines(&rules).contains(&"c 10:229 rw".to_owned()));
    }

    #[test]
    fn a_node_of_its_own_is_used_as_its_rules_say() {
        let null = Device {
            path: "/dev/null".into(),
            kind: DeviceKind::Char,
            major: 1,
            minor: 3,
            file_mode: None,
            uid: None,
            gid: None,
        };
        let rules = Rules::of(&[rule(true, DeviceKind::Char, 1, 3, "r")], &[null]).unwrap();
        assert!(lines(&rules).contains(&"c 1:3 r".to_owned()));
    }

    #[test]
    fn what_is_denied_again_is_no_exception_any_more() {
        let rules = [
            rule(true, DeviceKind::Block, 8, 0, "rwm"),
            rule(false, DeviceKind::Block, 8, 0, "w"),
            rule(true, DeviceKind::Block, 8, 1, "r"),
            rule(false, DeviceKind::Block, 8, 1, "r"),
        ];
        let rules = Rules::of(&rules, &[]).unwrap();
        assert!(lines(&rules).contains(&"b 8:0 rm".to_owned()));
        assert!(!lines(&rules).iter().any(|it| it.starts_with("b 8:1")));
    }

    #[test]
    fn what_no_cgroup_can_have_is_refused() {
        let hole = [
            rule(true, DeviceKind::Block, 8, -1, "rw"),
            rule(false, DeviceKind::Block, 8, 0, "w"),
        ];
        for (rules, said) in [
            (
                &hole[..],
                "cannot punch hole in existing wildcard rule [b 8:* rw]",
            ),
            (
                &[rule(true, DeviceKind::Char, 1, 3, "")],
                "device access at 0 field cannot be empty",
            ),
            (
                &[rule(true, DeviceKind::Char, 1, 3, "rx")],
                "may only contain r, w and m",
            ),
            (
                &[rule(true, DeviceKind::Fifo, 1, 3, "r")],
                "devices[0]: a FIFO is not a device",
            ),
            (
                &[rule(true, DeviceKind::Char, 1, -2, "r")],
                "-2 is not a valid device number",
            ),
        ] {
            let error = Rules::of(rules, &[]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
