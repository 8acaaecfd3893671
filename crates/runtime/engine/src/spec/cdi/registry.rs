//! The devices that all CDI files of a node describe.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::FIELD;
use super::schema::{Edits, File};
use crate::spec::Error;

/// Directories of vendors' files; a later one overrides an earlier one.
pub const DEFAULT_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Size limit of a file in bytes.
const MAX_FILE: u64 = 4 << 20;

/// The content of a node's CDI files.
#[derive(Debug, Default)]
pub(super) struct Registry {
    files: Vec<Known>,
    /// Indices of file and device, by qualified name.
    devices: BTreeMap<String, Vec<(usize, usize)>>,
    /// Errors of unusable files.
    broken: Vec<String>,
}

#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// Index of the file's directory.
    directory: usize,
    content: File,
}

/// A device that was found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// The file that defines the device.
    pub(super) file: &'a Path,
    /// Edits for every container that uses any device of the file.
    pub(super) common: &'a Edits,
    /// Edits for this device.
    pub(super) own: &'a Edits,
}

impl Registry {
    /// Reads the files of these directories; a missing directory is empty.
    pub(super) fn read(directories: &[PathBuf]) -> Self {
        let mut registry = Self::default();
        for (directory, path) in directories.iter().enumerate() {
            let mut paths: Vec<PathBuf> = match fs::read_dir(path) {
                Ok(entries) => entries
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .collect(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    registry.broken.push(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            paths.retain(|path| {
                path.extension()
                    .is_some_and(|end| end == "json" || end == "yaml")
            });
            paths.sort();
            for path in paths {
                match read(&path) {
                    Ok(content) => registry.add(Known {
                        path,
                        directory,
                        content,
                    }),
                    Err(problem) => registry
                        .broken
                        .push(format!("{}: {problem}", path.display())),
                }
            }
        }
        registry
    }

    /// Finds the device of a qualified name, `vendor/class=name`.
    pub(super) fn find(&self, name: &str) -> Result<Found<'_>, Error> {
        if !is_qualified(name) {
            let problem = format!("{name:?} does not have the form \"vendor.com/class=name\"");
            return Err(Error::invalid(FIELD, problem));
        }
        let Some(places) = self.devices.get(name) else {
            let mut problem = format!("device {name:?} does not exist on this node");
            if !self.broken.is_empty() {
                problem.push_str("; unreadable specifications: ");
                problem.push_str(&self.broken.join("; "));
            }
            return Err(Error::not_found(FIELD, problem));
        };
        match places.as_slice() {
            &[(file, device)] => {
                let Known { path, content, .. } = &self.files[file];
                Ok(Found {
                    file: path,
                    common: &content.container_edits,
                    own: &content.devices[device].container_edits,
                })
            }
            several => {
                let paths: Vec<_> = several
                    .iter()
                    .map(|(file, _)| self.files[*file].path.display().to_string())
                    .collect();
                let problem = format!(
                    "several CDI specifications define device {name:?}: {}",
                    paths.join(" and ")
                );
                Err(Error::unmet(FIELD, problem))
            }
        }
    }

    fn add(&mut self, known: Known) {
        let file = self.files.len();
        for (index, device) in known.content.devices.iter().enumerate() {
            let name = format!("{}={}", known.content.kind, device.name);
            let places = self.devices.entry(name).or_default();
            // Directories come in order: existing entries are of this one or an earlier.
            places.retain(|(other, _)| {
                self.files
                    .get(*other)
                    .is_none_or(|other| other.directory == known.directory)
            });
            places.push((file, index));
        }
        self.files.push(known);
    }
}

fn read(path: &Path) -> Result<File, String> {
    let text = orlop_fs::read_text(path, MAX_FILE).map_err(|error| error.to_string())?;
    let file: File = if path.extension().is_some_and(|end| end == "json") {
        serde_json::from_slice(text.as_bytes()).map_err(|error| error.to_string())?
    } else {
        orlop_yaml::from_str(&text).map_err(|error| error.to_string())?
    };
    check(&file)?;
    Ok(file)
}

fn check(file: &File) -> Result<(), String> {
    if !matches!(file.cdi_version.split('.').next(), Some("0" | "1")) {
        return Err(format!(
            "CDI version {:?} is not supported",
            file.cdi_version
        ));
    }
    if file.devices.is_empty() {
        return Err("defines no devices".to_owned());
    }
    for device in &file.devices {
        let name = format!("{}={}", file.kind, device.name);
        if !is_qualified(&name) {
            return Err(format!("{name:?} is not a valid device name"));
        }
    }
    Ok(())
}

/// Whether the name has the form `vendor/class=name`.
fn is_qualified(name: &str) -> bool {
    let Some((kind, device)) = name.split_once('=') else {
        return false;
    };
    let Some((vendor, class)) = kind.split_once('/') else {
        return false;
    };
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let word = |text: &str, extra: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
            && edge(text.chars().next_back())
    };
    let kind_part = |text: &str| letter(text.chars().next()) && word(text, "_-.");
    kind_part(vendor) && kind_part(class) && edge(device.chars().next()) && word(device, "_-.:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_three_parts() {
        for (name, fits) in [
            ("vendor.com/gpu=0", true),
            ("vendor.com/gpu.v2=GPU-1:2", true),
            ("vendor.com/gpu", false),
            ("gpu=0", false),
            ("/gpu=0", false),
            ("vendor.com/=0", false),
            ("vendor.com/gpu=", false),
            ("vendor.com/gpu=a/b", false),
            ("0vendor/gpu=0", false),
            ("vendor.com/gpu=-0", false),
        ] {
            assert_eq!(is_qualified(name), fits, "{name}");
        }
    }
}
