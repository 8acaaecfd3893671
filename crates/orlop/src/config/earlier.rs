//! Keys of earlier versions and the migration of files that contain them.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Fate of a key of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    /// It was renamed within its table.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "no key has been renamed so far")
    )]
    Renamed(&'static str),
    /// It was removed, for this reason.
    Nothing(&'static str),
}

/// All such keys, with their table. A commit that renames a key adds a line.
pub(crate) const EARLIER: &[(&str, Became)] = &[
    (
        "containers.apparmor",
        Became::Nothing("AppArmor is always enabled if the kernel supports it"),
    ),
    (
        "containers.log_buffer",
        Became::Nothing("`containers.log_full` replaces it"),
    ),
    (
        "containers.seccomp_profile",
        Became::Nothing("the default profile is built in; pods can select another profile"),
    ),
    (
        "containers.seccomp_profile_root",
        Became::Nothing("the kubelet passes profiles with their full paths"),
    ),
    (
        "containers.selinux",
        Became::Nothing("SELinux labels are always set if the kernel enforces SELinux"),
    ),
    (
        "containers.stop_timeout",
        Became::Nothing("the client that stops a container sets the timeout"),
    ),
];

impl Became {
    /// Looks up a key, given with its table.
    pub(crate) fn of(key: &str, earlier: &[(&str, Self)]) -> Option<Self> {
        let found = earlier.iter().find(|(name, _)| *name == key);
        found.map(|(_, became)| *became)
    }

    /// Returns the error message for a file that still has the key.
    pub(crate) fn complaint(self) -> String {
        let what = match self {
            Self::Renamed(name) => format!("was renamed to `{name}`"),
            Self::Nothing(why) => format!("was removed: {why}"),
        };
        format!("{what}; `orlop config migrate` converts the file")
    }
}

/// A migrated file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Migrated {
    pub(crate) text: String,
    /// Changes made, with their line numbers.
    pub(crate) done: Vec<(usize, String)>,
    /// Changes to make by hand, with their line numbers.
    pub(crate) left: Vec<(usize, String)>,
}

/// Renames keys of earlier versions and comments out removed keys; the rest of the text is unchanged. `None` if the
/// text is not TOML.
pub(crate) fn migrate(text: &str, earlier: &[(&str, Became)]) -> Option<Migrated> {
    let document = DeTable::parse(text).ok()?;
    let mut found = Vec::new();
    collect(document.get_ref(), "", earlier, &mut found);
    // From the end, so that earlier positions stay valid.
    found.sort_by_key(|found| std::cmp::Reverse(found.key.start));
    let mut migrated = Migrated {
        text: text.to_owned(),
        ..Migrated::default()
    };
    for Found {
        name,
        key,
        value,
        became,
    } in found
    {
        let line = text[..key.start].matches('\n').count() + 1;
        match became {
            Became::Renamed(to) => {
                migrated.text.replace_range(key, to);
                migrated
                    .done
                    .push((line, format!("renamed {name} to {to}")));
            }
            Became::Nothing(why) => match lines_of(text, &key, &value) {
                Some(lines) => {
                    let comment = commented(&text[lines.clone()]);
                    migrated.text.replace_range(lines, &comment);
                    migrated
                        .done
                        .push((line, format!("commented out {name}: {why}")));
                }
                None => migrated.left.push((
                    line,
                    format!("{name} shares its line with other keys; remove it manually ({why})"),
                )),
            },
        }
    }
    migrated.done.reverse();
    migrated.left.reverse();
    Some(migrated)
}

/// A key of an earlier version, with the positions of the key and its value.
struct Found {
    name: String,
    key: Range<usize>,
    value: Range<usize>,
    became: Became,
}

fn collect(table: &DeTable<'_>, above: &str, earlier: &[(&str, Became)], found: &mut Vec<Found>) {
    for (key, value) in table {
        let name = super::section::dotted(above, key.get_ref());
        if let Some(became) = Became::of(&name, earlier) {
            found.push(Found {
                name,
                key: Spanned::span(key),
                value: value.span(),
                became,
            });
        } else if let DeValue::Table(table) = value.get_ref() {
            collect(table, &name, earlier, found);
        }
    }
}

/// Returns the whole lines of a key and its value, or `None` if they contain anything else.
fn lines_of(text: &str, key: &Range<usize>, value: &Range<usize>) -> Option<Range<usize>> {
    let begin = text[..key.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[value.end..]
        .find('\n')
        .map_or(text.len(), |at| value.end + at);
    let before = text[begin..key.start].trim_matches([' ', '\t']);
    let after = text[value.end..end].trim_matches([' ', '\t', '\r']);
    // The key may be preceded by the names of its tables, each with a dot.
    let is_alone = before.is_empty() || before.ends_with('.') && !before.contains(['=', '{', '[']);
    let ends = after.is_empty() || after.starts_with('#');
    (is_alone && ends).then_some(begin..end)
}

fn commented(lines: &str) -> String {
    let lines: Vec<String> = lines.split('\n').map(|line| format!("# {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[(&str, Became)] = &[
        ("a.old", Became::Renamed("new")),
        ("a.gone", Became::Nothing("it went")),
        ("gone", Became::Nothing("it went, too")),
    ];

    fn text_of(text: &str) -> String {
        migrate(text, SOME).expect("TOML").text
    }

    #[test]
    fn what_was_written_besides_stays() {
        let text = "# mine\ngone = 1\nkept = [ 2 ] # so\n[a]\n  old   =   \"x\" # why\n  gone = [\n  1,\n  2 ]\nlast=1";
        let wanted = "# mine\n# gone = 1\nkept = [ 2 ] # so\n[a]\n  new   =   \"x\" # why\n#   gone = [\n#   1,\n#   2 ]\nlast=1";
        let migrated = migrate(text, SOME).expect("TOML");
        assert_eq!(migrated.text, wanted);
        let lines: Vec<usize> = migrated.done.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 5, 6]);
        assert!(migrated.left.is_empty());
        assert_eq!(text_of(wanted), wanted);
    }

    #[test]
    fn dotted_and_quoted_keys_are_keys() {
        assert_eq!(
            text_of("a.old = 1\na.\"gone\" = 2\r\n"),
            "a.new = 1\n# a.\"gone\" = 2\r\n"
        );
        assert_eq!(text_of("\"a\".'old' = 1"), "\"a\".new = 1");
        assert_eq!(text_of("a = { old = 1, x = 2 }"), "a = { new = 1, x = 2 }");
        // A key of another table, and text inside a string.
        let others = "[b]\nold = 1\ngone = \"a.old = 1\"";
        assert_eq!(text_of(others), others);
    }

    #[test]
    fn what_shares_its_line_is_left_to_its_writer() {
        let text = "x = 1\na = { gone = 1, x = 2 }";
        let migrated = migrate(text, SOME).expect("TOML");
        assert_eq!(migrated.text, text);
        assert_eq!(migrated.left.len(), 1);
        assert_eq!(migrated.left[0].0, 2);
        assert!(migrate("no toml", SOME).is_none());
    }

    #[test]
    fn no_key_of_today_is_an_earlier_one() {
        let config = crate::config::Config::default();
        for (table, section) in config.sections() {
            for key in section.keys() {
                let name = crate::config::section::dotted(table, key.name);
                assert_eq!(Became::of(&name, EARLIER), None, "{name}");
            }
        }
        for (name, became) in EARLIER {
            if let Became::Renamed(to) = became {
                let (table, _) = name.rsplit_once('.').unwrap_or(("", name));
                let section = config.sections().find(|(own, _)| *own == table);
                let section = section.expect("a table").1;
                assert!(section.keys().iter().any(|key| key.name == *to), "{name}");
            }
        }
    }
}
