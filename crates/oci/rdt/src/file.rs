//! The configuration file of partitions and classes, in the format of containerd and CRI-O.

use std::path::{Path, PathBuf};

use orlop_yaml::{Content, Document, Entry, Node};

use crate::error::{Error, Result};
use crate::share::{Bandwidth, CacheShare, PerCache, Read, Wrong, bandwidths, caches};

/// The class of the root group, which has all processes that are in no other group.
pub(crate) const ROOT: &str = "DEFAULT";
/// Names that the kernel uses below the root.
const TAKEN: [&str; 3] = ["info", "mon_groups", "mon_data"];

/// The partitions of a file, with their classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    file: PathBuf,
    pub(crate) optional: Optional,
    pub(crate) partitions: Vec<Partition>,
}

/// Features that a machine need not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Optional {
    pub(crate) l2: bool,
    pub(crate) l3: bool,
    pub(crate) mb: bool,
}

/// A part of the resources, shared only by its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) given: Given,
    pub(crate) classes: Vec<Class>,
}

/// The share of a partition in the machine, or of a class in its partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) l2: Option<PerCache<CacheShare>>,
    pub(crate) l3: Option<PerCache<CacheShare>>,
    pub(crate) mb: Option<PerCache<Bandwidth>>,
}

/// A class, to which containers are assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its name, which is also that of its group.
    pub name: String,
    /// Whether pod annotations may not request it.
    pub deny_pods: bool,
    /// Whether container annotations may not request it.
    pub deny_containers: bool,
    pub(crate) line: usize,
    pub(crate) given: Given,
}

impl Class {
    /// Returns whether it is the group of all processes that are in no other group.
    pub fn is_root(&self) -> bool {
        self.name == ROOT
    }
}

impl Partitions {
    /// Reads and parses a file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = orlop_fs::read_text(file, orlop_fs::SMALL_FILE).map_err(|error| {
            let why = error.to_string();
            let file = file.to_owned();
            Error::File { file, why }
        })?;
        Self::parse(file, &text)
    }

    /// Parses the text of a file.
    pub fn parse(file: &Path, text: &str) -> Result<Self> {
        let at = |wrong: Wrong| Error::Line {
            file: file.to_owned(),
            line: wrong.line,
            why: wrong.why,
        };
        let mut documents = orlop_yaml::documents(text).into_iter();
        let node = match (documents.next(), documents.next()) {
            (Some(Document::Good(node)), None) => node,
            (Some(Document::Bad(place, why)), _) | (_, Some(Document::Bad(place, why))) => {
                return Err(at(Wrong::at(place.line, why)));
            }
            (_, Some(Document::Good(node))) => {
                let why = "the file contains a second document; only one is allowed";
                return Err(at(Wrong::at(node.at.line, why)));
            }
            (None, None) => {
                return Err(Error::File {
                    file: file.to_owned(),
                    why: "the file is empty".to_owned(),
                });
            }
        };
        let mut found = Self {
            file: file.to_owned(),
            optional: Optional::default(),
            partitions: Vec::new(),
        };
        found.fill(&node).map_err(at)?;
        Ok(found)
    }

    fn fill(&mut self, node: &Node) -> Read<()> {
        for entry in map(node)? {
            match entry.key.as_str() {
                "options" => self.optional = optional(&entry.value)?,
                "partitions" => {
                    for entry in map(&entry.value)? {
                        self.partitions.push(partition(entry)?);
                    }
                }
                _ => return Err(unknown(entry, "options and partitions")),
            }
        }
        // By name, the order in which cache ways are assigned.
        self.partitions.sort_by(|a, b| a.name.cmp(&b.name));
        let mut classes: Vec<&Class> = self.classes().collect();
        classes.sort_by(|a, b| (&a.name, a.line).cmp(&(&b.name, b.line)));
        for pair in classes.windows(2) {
            if let [first, second] = pair
                && first.name == second.name
            {
                let (name, line) = (&first.name, first.line);
                let why = format!("the class {name:?} is already defined in line {line}");
                return Err(Wrong::at(second.line, why));
            }
        }
        Ok(())
    }

    /// Returns all classes.
    pub fn classes(&self) -> impl Iterator<Item = &Class> {
        self.partitions.iter().flat_map(|own| &own.classes)
    }

    /// Returns the class with this name.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes().find(|class| class.name == name)
    }

    pub(crate) fn wrong(&self, line: usize, why: impl Into<String>) -> Error {
        Error::Line {
            file: self.file.clone(),
            line,
            why: why.into(),
        }
    }
}

fn optional(node: &Node) -> Read<Optional> {
    let mut found = Optional::default();
    for entry in map(node)? {
        let place = match entry.key.as_str() {
            "l2" => &mut found.l2,
            "l3" => &mut found.l3,
            "mb" => &mut found.mb,
            _ => return Err(unknown(entry, "l2, l3 and mb")),
        };
        for entry in map(&entry.value)? {
            match entry.key.as_str() {
                "optional" => *place = flag(entry)?,
                _ => return Err(unknown(entry, "optional")),
            }
        }
    }
    Ok(found)
}

fn partition(entry: &Entry) -> Read<Partition> {
    let mut found = Partition {
        line: entry.at.line,
        name: entry.key.clone(),
        given: Given::default(),
        classes: Vec::new(),
    };
    for entry in map(&entry.value)? {
        if entry.key == "classes" {
            for entry in map(&entry.value)? {
                found.classes.push(class(entry)?);
            }
        } else if !given(&mut found.given, entry)? {
            let known = "l2Allocation, l3Allocation, mbAllocation and classes";
            return Err(unknown(entry, known));
        }
    }
    for class in &found.classes {
        let (own, whole) = (&class.given, &found.given);
        let lines = [
            (
                "l2Allocation",
                own.l2.as_ref().map(|it| it.line),
                whole.l2.is_some(),
            ),
            (
                "l3Allocation",
                own.l3.as_ref().map(|it| it.line),
                whole.l3.is_some(),
            ),
            (
                "mbAllocation",
                own.mb.as_ref().map(|it| it.line),
                whole.mb.is_some(),
            ),
        ];
        for (key, line, of_partition) in lines {
            if let (Some(line), false) = (line, of_partition) {
                let (class, partition) = (&class.name, &found.name);
                let why = format!(
                    "the class {class:?} sets {key}, but its partition {partition:?} does not"
                );
                return Err(Wrong::at(line, why));
            }
        }
    }
    Ok(found)
}

fn class(entry: &Entry) -> Read<Class> {
    let line = entry.at.line;
    let name = match entry.key.as_str() {
        "" => ROOT,
        name => name,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with('.') || name.len() > 255 || !name.chars().all(plain) {
        let why = format!(
            "{name:?} is not a valid class name; a name consists of letters, digits, -, _ and dots"
        );
        return Err(Wrong::at(line, why));
    }
    if TAKEN.contains(&name) {
        let why = format!("{name:?} is reserved by the kernel; give the class another name");
        return Err(Wrong::at(line, why));
    }
    let mut found = Class {
        name: name.to_owned(),
        deny_pods: false,
        deny_containers: false,
        line,
        given: Given::default(),
    };
    for entry in map(&entry.value)? {
        if entry.key == "kubernetes" {
            for entry in map(&entry.value)? {
                match entry.key.as_str() {
                    "denyPodAnnotation" => found.deny_pods = flag(entry)?,
                    "denyContainerAnnotation" => found.deny_containers = flag(entry)?,
                    _ => {
                        return Err(unknown(
                            entry,
                            "denyPodAnnotation and denyContainerAnnotation",
                        ));
                    }
                }
            }
        } else if !given(&mut found.given, entry)? {
            let known = "l2Allocation, l3Allocation, mbAllocation and kubernetes";
            return Err(unknown(entry, known));
        }
    }
    Ok(found)
}

/// Parses an entry if it is a share; returns whether it is one.
fn given(found: &mut Given, entry: &Entry) -> Read<bool> {
    let value = &entry.value;
    let is_said = value.content != Content::Null;
    match entry.key.as_str() {
        "l2Allocation" if is_said => found.l2 = Some(caches(value)?),
        "l3Allocation" if is_said => found.l3 = Some(caches(value)?),
        "mbAllocation" if is_said => found.mb = Some(bandwidths(value)?),
        "l2Allocation" | "l3Allocation" | "mbAllocation" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the entries of a map; an absent value is an empty map.
fn map(node: &Node) -> Read<&[Entry]> {
    match &node.content {
        Content::Map(entries) => Ok(entries),
        Content::Null => Ok(&[]),
        _ => Err(Wrong::at(
            node.at.line,
            format!("expected a map, not {}", node.what()),
        )),
    }
}

fn flag(entry: &Entry) -> Read<bool> {
    match entry.value.content {
        Content::Bool(value) => Ok(value),
        _ => Err(Wrong::at(
            entry.value.at.line,
            format!(
                "{} must be true or false, not {}",
                entry.key,
                entry.value.what()
            ),
        )),
    }
}

fn unknown(entry: &Entry, known: &str) -> Wrong {
    let key = &entry.key;
    Wrong::at(
        entry.at.line,
        format!("unknown key {key:?}; valid keys are {known}"),
    )
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
