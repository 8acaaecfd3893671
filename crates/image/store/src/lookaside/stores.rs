//! The directory of files that assign signature stores to images. The files are read again for each pull, so that a
//! change needs no restart.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::base::Base;
use super::document::{Said, Section, is_settings, parse};
use crate::policy::scope;
use crate::{Error, Reference, Result};

/// Maximum size of a file.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of files.
const MAX_FILES: usize = 1000;

/// The assignment of signature stores to images.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    default: Option<(PathBuf, Section)>,
    /// Settings by scope, with the file that contains them.
    docker: BTreeMap<String, (PathBuf, Section)>,
}

impl Stores {
    /// Reads all files of a directory. A missing directory has no settings. Blocks.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let mut stores = Self::default();
        for file in listed(dir)? {
            let text = orlop_fs::read_text(&file, MAX_FILE).map_err(|it| wrong(&file, it))?;
            let said = parse(&text).map_err(|it| wrong(&file, it))?;
            stores.add(&file, said)?;
        }
        Ok(stores)
    }

    fn add(&mut self, file: &Path, said: Said) -> Result<()> {
        let twice = |what: &str, other: &Path| {
            let problem = format!("{what} is already in {}", other.display());
            Err(wrong(file, problem))
        };
        if let Some(section) = said.default {
            if let Some((other, _)) = &self.default {
                return twice("\"default-docker\"", other);
            }
            self.default = Some((file.to_owned(), section));
        }
        for (scope, section) in said.docker {
            if let Some((other, _)) = self.docker.get(&scope) {
                return twice(&format!("{scope:?}"), other);
            }
            self.docker.insert(scope, (file.to_owned(), section));
        }
        Ok(())
    }

    /// Returns the store of an image, from the most specific scope that has one.
    pub(crate) fn base(&self, name: &Reference) -> Option<&Base> {
        let mut sections = self.sections(name);
        sections.find_map(|(_, section)| section.lookaside.as_ref())
    }

    /// Returns the file that disables attached signatures for the image, if there is one.
    pub(crate) fn without_attachments(&self, name: &Reference) -> Option<&Path> {
        let mut sections = self.sections(name);
        let said = sections.find_map(|(file, section)| Some((file, section.attachments?)));
        said.filter(|(_, counts)| !counts).map(|(file, _)| file)
    }

    /// Returns the settings that apply to an image, the most specific first.
    fn sections(&self, name: &Reference) -> impl Iterator<Item = (&Path, &Section)> {
        let scopes = scope::of(name).into_iter();
        let sections = scopes.filter_map(|scope| self.docker.get(&scope));
        let all = sections.chain(&self.default);
        all.map(|(file, section)| (file.as_path(), section))
    }
}

/// Reads all files of signature stores, and returns their number. Blocks.
pub fn check_signature_stores(dir: &Path) -> Result<usize> {
    Stores::read(dir)?;
    Ok(listed(dir)?.len())
}

fn listed(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(dir, error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|it| wrong(dir, it))?.path();
        if is_settings(&path) {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(wrong(dir, format!("it has more than {MAX_FILES} files")));
        }
    }
    // Sorted, so that errors are the same each time.
    files.sort();
    Ok(files)
}

fn wrong(path: &Path, reason: impl ToString) -> Error {
    Error::Configuration {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use orlop_testkit::Scratch;

    use super::*;

    fn name(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn the_most_specific_store_counts_and_may_say_one_thing_only() {
        let scratch = Scratch::new();
        let dir = scratch.subdir("registries.d");
        let write = |file: &str, text: &str| std::fs::write(dir.join(file), text).unwrap();
        write(
            "default.yaml",
            "default-docker:\n  lookaside: file:///all\n",
        );
        write(
            "a.yaml",
            "docker:
  a.example:
    lookaside: file:///a
    use-sigstore-attachments: false
  a.example/team: {lookaside: 'file:///team'}
  a.example/team/app:1: {use-sigstore-attachments: true}
  '*.b.example': {sigstore: 'file:///b'}
  docker.io/library/busybox: {lookaside: 'file:///busybox'}
",
        );
        write("c.yaml.bak", "nonsense");
        let stores = Stores::read(&dir).unwrap();
        for (image, base, attachments) in [
            ("x.example/y", "/all", true),
            ("a.example/x", "/a", false),
            ("A.example/x:2", "/a", false),
            ("a.example/team/app:2", "/team", false),
            ("a.example/team/app:1", "/team", true),
            ("a.example/teams:1", "/a", false),
            ("a.example:5000/x", "/all", true),
            ("x.y.b.example/z", "/b", true),
            ("busybox:1", "/busybox", true),
        ] {
            let found = stores.base(&name(image));
            assert_eq!(found, Some(&Base::Directory(base.into())), "{image}");
            let without = stores.without_attachments(&name(image));
            assert_eq!(without.is_none(), attachments, "{image}");
        }
        assert_eq!(check_signature_stores(&dir).unwrap(), 2);
    }

    #[test]
    fn two_files_must_not_speak_of_the_same() {
        for text in ["default-docker: {}\n", "docker:\n  A.example/x: {}\n"] {
            let scratch = Scratch::new();
            for file in ["1.yaml", "2.yaml"] {
                let text = text.replace('A', if file == "1.yaml" { "A" } else { "a" });
                std::fs::write(scratch.path(file), text).unwrap();
            }
            let error = Stores::read(scratch.dir()).unwrap_err().to_string();
            assert!(
                error.contains("2.yaml: ") && error.ends_with("/1.yaml"),
                "{error}"
            );
        }
        let scratch = Scratch::new();
        let missing = Stores::read(&scratch.path("none")).unwrap();
        assert_eq!(missing.base(&name("a.example/x")), None);
        std::os::unix::fs::symlink("/nowhere", scratch.path("broken.yaml")).unwrap();
        Stores::read(scratch.dir()).unwrap_err();
    }
}
