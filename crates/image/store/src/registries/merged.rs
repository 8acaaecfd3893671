//! The merged settings of a `registries.conf` and the files of its `.d` directory.

use std::collections::BTreeMap;

use super::alias::{Alias, Mode};
use super::document::{Document, Entry, FILES};
use crate::Place;

/// The merged settings; empty without any file.
#[derive(Debug, Default)]
pub(crate) struct Registries {
    /// Entries by prefix.
    entries: BTreeMap<String, Entry>,
    pub(super) search: Option<(Vec<String>, Place)>,
    pub(super) mode: Option<(Mode, Place)>,
    pub(super) aliases: BTreeMap<String, Alias>,
    helpers: Option<Vec<String>>,
    /// Whether there is a file. Without one, short names belong to Docker Hub.
    pub(super) is_set: bool,
}

impl Registries {
    /// Merges a file into the settings: it replaces entries with the same prefix, aliases with the same name, and the
    /// lists that it contains.
    pub(crate) fn adopt(&mut self, document: Document) {
        self.is_set = true;
        for entry in document.entries {
            self.entries.insert(entry.prefix.to_string(), entry);
        }
        self.search = document.search.or(self.search.take());
        self.mode = document.mode.or(self.mode.take());
        self.helpers = document.helpers.or(self.helpers.take());
        for (name, alias) in document.aliases {
            match alias {
                Some(alias) => drop(self.aliases.insert(name, alias)),
                None => drop(self.aliases.remove(&name)),
            }
        }
    }

    /// Returns the sources of credentials in order: helper programs, and [`FILES`].
    pub(crate) fn helpers(&self) -> Vec<String> {
        match &self.helpers {
            Some(helpers) if !helpers.is_empty() => helpers.clone(),
            _ => vec![FILES.to_owned()],
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns the numbers of registries and aliases.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.entries.len(), self.aliases.len())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::route::Asking;
    use super::*;
    use crate::{Digest, Error, Reference, Result};

    fn merged(texts: &[&str]) -> Result<Registries> {
        let mut registries = Registries::default();
        for (number, text) in texts.iter().enumerate() {
            let path = format!("/etc/{number}.conf");
            registries.adopt(Document::parse(Path::new(&path), text)?);
        }
        Ok(registries)
    }

    fn route(registries: &Registries, name: &str) -> Result<Vec<String>> {
        let name: Reference = name.parse()?;
        let asking = Asking::For(name.selector().clone());
        let sources = registries.sources(name.repository(), &asking)?;
        let asked = sources.iter().filter(|source| source.serves(&asking));
        Ok(asked.map(|source| source.repository.to_string()).collect())
    }

    const ROUTES: &str = r#"
        [[registry]]
        location = "plain.example"
        [[registry]]
        prefix = "moved.example/team"
        location = "new.example/old/team"
        [[registry]]
        prefix = "moved.example"
        blocked = true
        [[registry]]
        prefix = "*.wild.example"
        [[registry.mirror]]
        location = "mirror.example/wild"
        [[registry]]
        prefix = "*.away.example"
        location = "one.example"
        [[registry]]
        location = "mirrored.example"
        [[registry.mirror]]
        location = "all.example/m"
        [[registry.mirror]]
        location = "digests.example"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "tags.example"
        pull-from-mirror = "tag-only"
        [[registry]]
        location = "strict.example"
        mirror-by-digest-only = true
        [[registry.mirror]]
        location = "all.example/strict"
        [[registry]]
        prefix = "one.example/image:bad"
        blocked = true
        [[registry]]
        prefix = "docker.io/library"
        location = "hub.example/official"
    "#;

    #[test]
    fn names_lead_where_the_longest_prefix_says() {
        let registries = merged(&[ROUTES]).unwrap();
        let digest = Digest::of(b"x");
        let by_digest = format!("mirrored.example/a@{digest}");
        let strict_digest = format!("strict.example/a@{digest}");
        for (name, expected) in [
            ("other.example/a", &["other.example/a"][..]),
            ("plain.example/a", &["plain.example/a"]),
            ("moved.example/team/a:1", &["new.example/old/team/a"]),
            ("moved.example/team", &["new.example/old/team"]),
            (
                "x.y.wild.example/a/b",
                &["mirror.example/wild/a/b", "x.y.wild.example/a/b"],
            ),
            ("x.away.example/a/b", &["one.example/a/b"]),
            (
                "mirrored.example/a:1",
                &["all.example/m/a", "tags.example/a", "mirrored.example/a"],
            ),
            (
                &by_digest,
                &["all.example/m/a", "digests.example/a", "mirrored.example/a"],
            ),
            ("strict.example/a:1", &["strict.example/a"]),
            (
                &strict_digest,
                &["all.example/strict/a", "strict.example/a"],
            ),
            ("one.example/image:good", &["one.example/image"]),
            ("busybox", &["hub.example/official/busybox"]),
            ("docker.io/team/a", &["docker.io/team/a"]),
        ] {
            assert_eq!(route(&registries, name).unwrap(), expected, "{name}");
        }
        for (name, line) in [
            ("moved.example/teams/a", "/etc/0.conf:9"),
            ("MOVED.example:443/a", "/etc/0.conf:9"),
            ("one.example/image:bad", "/etc/0.conf:34"),
        ] {
            let error = route(&registries, name).unwrap_err();
            assert!(matches!(error, Error::Blocked { .. }), "{error}");
            assert!(error.to_string().contains(line), "{name}: {error}");
        }
    }

    #[test]
    fn later_files_replace_what_they_name() {
        let first = r#"
            unqualified-search-registries = ["a.example", "b.example"]
            short-name-mode = "enforcing"
            credential-helpers = ["one"]
            [[registry]]
            location = "r.example"
            blocked = true
            [[registry]]
            location = "s.example"
            blocked = true
            [aliases]
            x = "one.example/x"
            "team/y" = "one.example/y"
        "#;
        let second = r#"
            [[registry]]
            prefix = "R.example/"
            location = "t.example"
            [aliases]
            x = "two.example/x"
            "team/y" = ""
            z = "two.example/z"
        "#;
        let both = merged(&[first, second]).unwrap();
        assert_eq!(route(&both, "r.example/a").unwrap(), ["t.example/a"]);
        route(&both, "s.example/a").unwrap_err();
        let names = |registries: &Registries, name: &str| {
            let candidates = registries.candidates(name)?;
            let names = candidates.names.iter().map(ToString::to_string);
            Ok::<_, Error>(names.collect::<Vec<_>>())
        };
        assert_eq!(names(&both, "x:1").unwrap(), ["two.example/x:1"]);
        assert_eq!(names(&both, "z").unwrap(), ["two.example/z:latest"]);
        names(&both, "team/y").unwrap_err();
        assert_eq!(both.helpers(), ["one"]);
        let third = r#"
            unqualified-search-registries = ["c.example"]
            credential-helpers = ["containers-auth.json", "two"]
        "#;
        let all = merged(&[first, second, third]).unwrap();
        assert_eq!(names(&all, "team/y").unwrap(), ["c.example/team/y:latest"]);
        assert_eq!(all.helpers(), [FILES, "two"]);
        let none = merged(&[first, "unqualified-search-registries = []"]).unwrap();
        names(&none, "w").unwrap_err();
        assert_eq!(merged(&["", ""]).unwrap().helpers(), [FILES]);
    }

    #[test]
    fn short_names_become_full_ones() {
        let with = |mode: &str| {
            let text = format!(
                "unqualified-search-registries = [\"a.example:5000\", \"docker.io\"]\n\
                 {mode}\n[aliases]\n\"busybox\" = \"b.example/boxes/busy\"\n\"team/app\" = \"c.example/app\"\n"
            );
            merged(&[&text]).unwrap()
        };
        let digest = Digest::of(b"x");
        let (by_digest, of_alias) = (format!("y@{digest}"), format!("busybox:1@{digest}"));
        let candidates = |registries: &Registries, name: &str| {
            let found = registries.candidates(name)?;
            Ok::<_, Error>(
                found
                    .names
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
        };
        for mode in [
            "",
            "short-name-mode = \"permissive\"",
            "short-name-mode = \"disabled\"",
            "short-name-mode = \"enforcing\"",
        ] {
            let registries = with(mode);
            for (name, expected) in [
                ("busybox", "b.example/boxes/busy:latest".to_owned()),
                ("busybox:1", "b.example/boxes/busy:1".to_owned()),
                (&of_alias, format!("b.example/boxes/busy@{digest}")),
                ("team/app:2", "c.example/app:2".to_owned()),
                (
                    "docker.io/busybox",
                    "docker.io/library/busybox:latest".to_owned(),
                ),
                ("localhost/busybox", "localhost/busybox:latest".to_owned()),
            ] {
                assert_eq!(candidates(&registries, name).unwrap(), [expected], "{name}");
            }
            for (name, there, hub) in [
                ("y:2", "a.example:5000/y:2", "docker.io/library/y:2"),
                (
                    "app",
                    "a.example:5000/app:latest",
                    "docker.io/library/app:latest",
                ),
                (
                    "team/y",
                    "a.example:5000/team/y:latest",
                    "docker.io/team/y:latest",
                ),
                (
                    &by_digest,
                    &format!("a.example:5000/y@{digest}"),
                    &format!("docker.io/library/y@{digest}"),
                ),
            ] {
                let found = candidates(&registries, name);
                if mode.contains("enforcing") {
                    let error = found.unwrap_err().to_string();
                    for part in [there, hub, "/etc/0.conf:1", "/etc/0.conf:2"] {
                        assert!(error.contains(part), "{name}: {error}");
                    }
                    assert_eq!(registries.names_here(name), []);
                } else {
                    assert_eq!(found.unwrap(), [there, hub], "{name}");
                }
            }
            candidates(&registries, "Not A Name").unwrap_err();
        }
        let alone =
            "unqualified-search-registries = [\"a.example\"]\nshort-name-mode = \"enforcing\"";
        let found = candidates(&merged(&[alone]).unwrap(), "y");
        assert_eq!(found.unwrap(), ["a.example/y:latest"]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, reason) in [
            ("[[registry]]\nblokced = true", 2, "blokced"),
            ("\n\nlocation = \"x\"", 3, "location"),
            ("a = [", 1, ""),
            ("[registries.search]\nregistries = []", 1, "version 1"),
            ("[[registry]]\n[[registry]]\nlocation=\"a.b\"", 1, "neither"),
            ("[[registry]]\nlocation = \"https://a.b\"", 2, "scheme"),
            (
                "[[registry]]\nlocation = \"a.b\"\nprefix = \"*a.b\"",
                3,
                "`*`",
            ),
            (
                "[[registry]]\nprefix = \"a.b\"\nlocation = \"b/c\"",
                3,
                "does not begin with a host",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\n\n[[registry]]\nprefix = \"A.b/\"",
                4,
                "line 1",
            ),
            (
                "[[registry]]\nprefix = \"a.b/c:1\"\nlocation = \"a.b/c:2\"",
                3,
                "tag",
            ),
            (
                "[[registry]]\nprefix = \"a.b/c\"\nlocation = \"a.b/c:2\"",
                3,
                "tag",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\n[[registry.mirror]]\nlocation = \"\"",
                4,
                "empty",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\n[[registry.mirror]]\nlocation = \"c.d\"\npull-from-mirror = \"x\"",
                5,
                "is not a value of",
            ),
            (
                "[[registry]]\nlocation = \"a.b\"\nmirror-by-digest-only = true\n[[registry.mirror]]\n\
                 location = \"c.d\"\npull-from-mirror = \"all\"",
                6,
                "contradict",
            ),
            (
                "\nshort-name-mode = \"strict\"",
                2,
                "is not a short name mode",
            ),
            (
                "unqualified-search-registries = [\n\"a.b\",\n\"a.b/c\"]",
                3,
                "is not a valid registry",
            ),
            (
                "unqualified-search-registries = [\"hub\"]",
                1,
                "is not a valid registry",
            ),
            (
                "[aliases]\n\"a.b/c\" = \"d.e/f\"",
                2,
                "is not a valid alias",
            ),
            ("[aliases]\n\"a:1\" = \"d.e/f\"", 2, "is not a valid alias"),
            (
                "[aliases]\na = \"d.e/f:1\"",
                2,
                "is not a valid alias target",
            ),
            ("[aliases]\na = \"f\"", 2, "is not a valid alias target"),
            ("credential-helpers = [\"../x\"]", 1, "not the name"),
        ] {
            let error = merged(&[text]).unwrap_err().to_string();
            let place = format!("/etc/0.conf:{line}: ");
            assert!(error.contains(&place), "{text}: {error}");
            assert!(error.contains(reason), "{text}: {error}");
        }
        // Settings for other programs are ignored.
        merged(&["additional-layer-store-auth-helper = \"x\""]).unwrap();
    }
}
