//! Loads the configuration: defaults, then the file, its drop-ins and the flags.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::flags::Flags;
use super::problem::{Origin, Problem, Problems};
use super::schema::{Config, RUNTIMES, Runtime};
use super::section::{Section, SetError, dotted};
use super::suggest::unknown_key;
use super::validate::validate;

/// A configuration with the origin of every value that is not a default.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) origins: BTreeMap<String, Origin>,
    /// The files read, in order.
    pub(crate) files: Vec<PathBuf>,
}

/// Configuration file that is read if none is named.
pub(crate) const DEFAULT_FILE: &str = "/etc/orlop/config.toml";

/// The main file. Its drop-ins are the `*.toml` files in the directory with the same name plus `.d`, sorted by name.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    file: PathBuf,
    required: bool,
}

impl Location {
    /// Uses the named file, which must exist, or the default file, which may be missing.
    pub(crate) fn new(named: Option<PathBuf>) -> Self {
        match named {
            Some(file) => Self {
                file,
                required: true,
            },
            None => Self {
                file: DEFAULT_FILE.into(),
                required: false,
            },
        }
    }

    /// Returns the existing files, in the order in which they are read.
    pub(crate) fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        if self.required || self.file.exists() {
            files.push(self.file.clone());
        }
        match list_drop_ins(&self.drop_in_dir()) {
            Ok(drop_ins) => files.extend(drop_ins),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(files)
    }

    fn drop_in_dir(&self) -> PathBuf {
        let mut name = self.file.as_os_str().to_owned();
        name.push(".d");
        name.into()
    }
}

/// Loads the whole configuration, or returns all its errors.
pub(crate) fn load(location: &Location, flags: &Flags) -> Result<Loaded, Problems> {
    let mut reader = Reader::default();
    if location.required || location.file.exists() {
        reader.file(&location.file);
    }
    reader.drop_ins(&location.drop_in_dir());
    reader.flags(flags);
    reader.finish()
}

/// Size limit of a configuration file.
const LARGEST_FILE: u64 = 1 << 20;

#[derive(Default)]
struct Reader {
    config: Config,
    origins: BTreeMap<String, Origin>,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl Reader {
    fn drop_ins(&mut self, dir: &Path) {
        match list_drop_ins(dir) {
            Ok(files) => files.iter().for_each(|file| self.file(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.problem(
                Origin::File(dir.to_owned(), None),
                None,
                format!("cannot list the directory: {error}"),
            ),
        }
    }

    fn file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
        let text = match read(path) {
            Ok(text) => text,
            Err(error) => {
                let origin = Origin::File(path.to_owned(), None);
                return self.problem(origin, None, format!("cannot read the file: {error}"));
            }
        };
        let source = Source { path, text: &text };
        match DeTable::parse(&text) {
            Ok(document) => self.document(&source, document.get_ref()),
            Err(error) => {
                let origin = source.at(error.span().map_or(0, |span| span.start));
                self.problem(origin, None, error.message().replace('\n', ", "));
            }
        }
    }

    fn document(&mut self, source: &Source<'_>, document: &DeTable<'_>) {
        for (key, value) in document {
            let name = key.get_ref().as_ref();
            if name == RUNTIMES {
                self.runtimes(source, value);
            } else if !name.is_empty() && self.config.section_mut(name).is_some() {
                self.table(source, name, value, |config| config.section_mut(name));
            } else {
                self.key(source, "", key, value, |config| config.section_mut(""));
            }
        }
    }

    fn runtimes(&mut self, source: &Source<'_>, value: &Spanned<DeValue<'_>>) {
        let Some(runtimes) = value.get_ref().as_table() else {
            let message = "must contain one table per runtime: [runtimes.NAME]".to_owned();
            return self.problem(
                source.at(value.span().start),
                Some(RUNTIMES.to_owned()),
                message,
            );
        };
        for (name, value) in runtimes {
            let name = name.get_ref().as_ref();
            self.config.runtimes.entry(name.to_owned()).or_default();
            self.table(source, &format!("{RUNTIMES}.{name}"), value, |config| {
                config
                    .runtimes
                    .get_mut(name)
                    .map(|runtime: &mut Runtime| runtime as _)
            });
        }
    }

    fn table(
        &mut self,
        source: &Source<'_>,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        section: impl Fn(&mut Config) -> Option<&mut dyn Section>,
    ) {
        let Some(keys) = value.get_ref().as_table() else {
            let origin = source.at(value.span().start);
            return self.problem(
                origin,
                Some(name.to_owned()),
                format!("must be a table: [{name}]"),
            );
        };
        for (key, value) in keys {
            self.key(source, name, key, value, &section);
        }
    }

    fn key(
        &mut self,
        source: &Source<'_>,
        table: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        section: impl Fn(&mut Config) -> Option<&mut dyn Section>,
    ) {
        let Some(section) = section(&mut self.config) else {
            return;
        };
        let name = key.get_ref().as_ref();
        let dotted = dotted(table, name);
        let origin = source.at(key.span().start);
        match section.set(name, value) {
            Ok(()) => {
                self.origins.insert(dotted, origin);
            }
            Err(SetError::Bad(bad)) => {
                self.problem(source.at(bad.span.start), Some(dotted), bad.message);
            }
            Err(SetError::Unknown) => {
                let own = section
                    .keys()
                    .iter()
                    .map(|key| key.name)
                    .collect::<Vec<_>>();
                let message = unknown_key(&self.config, table, &own, name);
                self.problem(origin, Some(dotted), message);
            }
        }
    }

    fn flags(&mut self, flags: &Flags) {
        match flags.apply(&mut self.config) {
            Ok(set) => {
                let origins = set.into_iter().map(|(key, flag)| (key, Origin::Flag(flag)));
                self.origins.extend(origins);
            }
            Err(message) => self.problem(Origin::Default, None, message),
        }
    }

    fn finish(mut self) -> Result<Loaded, Problems> {
        for (key, message) in validate(&self.config) {
            let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
            self.problem(origin, Some(key), message);
        }
        if self.problems.is_empty() {
            Ok(Loaded {
                config: self.config,
                origins: self.origins,
                files: self.files,
            })
        } else {
            self.problems.sort_by(|a, b| a.origin.cmp(&b.origin));
            Err(Problems(self.problems))
        }
    }

    fn problem(&mut self, origin: Origin, key: Option<String>, message: String) {
        self.problems.push(Problem {
            origin,
            key,
            message,
        });
    }
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn at(&self, offset: usize) -> Origin {
        let line = self
            .text
            .bytes()
            .take(offset)
            .filter(|byte| *byte == b'\n')
            .count()
            + 1;
        Origin::File(self.path.to_owned(), Some(line))
    }
}

/// Reads a configuration file, up to the size limit.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    // The file may be a pipe of the user's shell.
    orlop_fs::read_whole_text(File::open(path)?, LARGEST_FILE)
}

fn list_drop_ins(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden
            && path
                .extension()
                .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
