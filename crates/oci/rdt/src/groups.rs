//! The groups of the classes: create them, set their shares, and remove them when no class has their name any more.
//!
//! Before a group is created, its name is recorded in a file, so that groups of other programs are never removed. The
//! file also records if the root has a class's shares, so that they can be reset.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orlop_fs::Outlives;

use crate::error::{Error, Result, failed};
use crate::file::Partitions;
use crate::machine::{Machine, read};
use crate::mount::Mount;
use crate::plan::{Group, plan};
use crate::schemata::{Schemata, parse, render};

/// The name of the root in the record.
const ROOT: &str = ".";

/// The changes that were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Groups that were created.
    pub made: Vec<String>,
    /// Groups whose shares changed; an empty name is the root.
    pub changed: Vec<String>,
    /// Groups that were removed.
    pub removed: Vec<String>,
    /// Groups of removed classes that stay, because they have tasks or CPUs.
    pub kept: Vec<String>,
    /// Settings of the file that this machine does not support, and need not.
    pub notes: Vec<Error>,
}

/// Creates groups as configured; without a configuration all groups are removed. `record` is the file with the names of
/// created groups. Groups named in `others` belong to other programs, and are not removed. A failure leaves everything
/// unchanged.
pub fn settle(
    mount: Option<&Mount>,
    record: &Path,
    wanted: Option<&Partitions>,
    others: &[String],
) -> Result<Settled> {
    // The kernel removes a group's files with its directory.
    settle_by(|dir| fs::remove_dir(dir), mount, record, wanted, others)
}

type Remove = fn(&Path) -> std::io::Result<()>;

fn settle_by(
    remove: Remove,
    mount: Option<&Mount>,
    record: &Path,
    wanted: Option<&Partitions>,
    others: &[String],
) -> Result<Settled> {
    let earlier = recorded(record)?;
    if wanted.is_none() && earlier.is_empty() {
        return Ok(Settled::default());
    }
    let Some(mount) = mount else {
        if wanted.is_none() {
            // The groups were removed with the file system.
            return note(record, &BTreeSet::new()).map(|()| Settled::default());
        }
        let problem = "resctrl is not mounted; run `mount -t resctrl resctrl /sys/fs/resctrl` if this machine \
            supports RDT";
        return Err(Error::Machine(problem.to_owned()));
    };
    let mut machine = Machine::read(mount)?;
    let mut done = Settled::default();
    let mut stale = Vec::new();
    for name in &earlier {
        let is_wanted = wanted.is_some_and(|own| own.class(name).is_some());
        if is_wanted || others.contains(name) || !machine.groups.contains(name) {
            continue;
        }
        if is_used(&mount.root.join(name))? {
            done.kept.push(name.clone());
        } else {
            stale.push(name.clone());
            machine.groups.remove(name);
        }
    }
    let planned = match wanted {
        Some(wanted) => plan(wanted, &machine)?,
        None => crate::plan::Plan::default(),
    };
    done.notes = planned.notes;
    let named = planned.groups.iter().map(|group| noted(&group.name));
    let named: BTreeSet<&str> = named.collect();
    // Existing groups belong to other programs, unless they are recorded.
    let to_come = named
        .iter()
        .filter(|name| !machine.groups.contains(**name))
        .map(|name| (*name).to_owned());
    note(record, &to_come.chain(earlier.iter().cloned()).collect())?;
    let is_freed = earlier.contains(ROOT) && !named.contains(ROOT);
    let freed = is_freed.then(|| machine.everything());
    let mut work = Work {
        root: &mount.root,
        remove,
        undo: Vec::new(),
    };
    if let Err((line, why)) = work.carry_out(&stale, &planned.groups, freed.as_ref(), &mut done) {
        work.undo();
        let _ = note(record, &earlier);
        return Err(match (line, wanted) {
            (Some(line), Some(wanted)) => wanted.wrong(line, why),
            _ => Error::Machine(why),
        });
    }
    let own = named
        .iter()
        .copied()
        .filter(|name| *name == ROOT || earlier.contains(*name));
    let own = own.chain(done.made.iter().chain(&done.kept).map(String::as_str));
    // If this fails, the record contains removed groups, which is harmless.
    let _ = note(record, &own.map(str::to_owned).collect());
    Ok(done)
}

/// Returns a group's name in the record.
fn noted(name: &str) -> &str {
    if name.is_empty() { ROOT } else { name }
}

/// The changes to the tree, and how to undo them.
struct Work<'a> {
    root: &'a Path,
    remove: Remove,
    undo: Vec<Undo>,
}

enum Undo {
    Remove(PathBuf),
    MakeAgain(PathBuf),
    Write(PathBuf, String),
}

impl Work<'_> {
    fn carry_out(
        &mut self,
        stale: &[String],
        groups: &[Group],
        freed: Option<&Schemata>,
        done: &mut Settled,
    ) -> std::result::Result<(), (Option<usize>, String)> {
        // First, as the number of groups may be limited.
        for name in stale {
            self.remove(name).map_err(|why| (None, why))?;
            done.removed.push(name.clone());
        }
        for group in groups {
            let at = |why| (Some(group.line), why);
            let dir = self.root.join(&group.name);
            let is_new = self.make(&dir).map_err(at)?;
            let is_other = self.write(&dir, &group.schemata).map_err(at)?;
            if is_new {
                done.made.push(group.name.clone());
            } else if is_other {
                done.changed.push(group.name.clone());
            }
        }
        if let Some(everything) = freed {
            let root = self.root.to_owned();
            if self.write(&root, everything).map_err(|why| (None, why))? {
                done.changed.push(String::new());
            }
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> std::result::Result<(), String> {
        let dir = self.root.join(name);
        let before = render(&parse(&read(&dir.join("schemata")).unwrap_or_default()));
        (self.remove)(&dir).map_err(|error| format!("removing the group {name:?}: {error}"))?;
        // Undone in reverse order.
        self.undo.push(Undo::Write(dir.join("schemata"), before));
        self.undo.push(Undo::MakeAgain(dir));
        Ok(())
    }

    /// Creates a group; returns false if it existed.
    fn make(&mut self, dir: &Path) -> std::result::Result<bool, String> {
        match fs::create_dir(dir) {
            Ok(()) => {
                self.undo.push(Undo::Remove(dir.to_owned()));
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => {
                let why = format!("creating the group {}: {error}", dir.display());
                Err(self.with_status(why))
            }
        }
    }

    /// Writes the shares; returns whether they changed.
    fn write(&mut self, dir: &Path, wanted: &Schemata) -> std::result::Result<bool, String> {
        let file = dir.join("schemata");
        let mut current = parse(&read(&file).unwrap_or_default());
        current.retain(|resource, _| wanted.contains_key(resource));
        if current == *wanted {
            return Ok(false);
        }
        self.undo.push(Undo::Write(file.clone(), render(&current)));
        let text = render(wanted);
        match fs::write(&file, &text) {
            Ok(()) => Ok(true),
            Err(error) => {
                let text = text.trim().replace('\n', ", ");
                let why = format!("writing {text:?} to {}: {error}", file.display());
                Err(self.with_status(why))
            }
        }
    }

    /// Adds the kernel's message about its last refusal.
    fn with_status(&self, why: String) -> String {
        let status = read(&self.root.join("info/last_cmd_status")).unwrap_or_default();
        match status.trim() {
            "" | "ok" => why,
            status => format!("{why} (kernel message: {status})"),
        }
    }

    /// Undoes all changes as far as possible.
    fn undo(self) {
        for step in self.undo.into_iter().rev() {
            let _ = match step {
                Undo::Remove(dir) => (self.remove)(&dir),
                Undo::MakeAgain(dir) => fs::create_dir(dir),
                Undo::Write(file, text) => fs::write(file, text),
            };
        }
    }
}

/// Returns whether a group has processes or CPUs.
fn is_used(dir: &Path) -> Result<bool> {
    if !read(&dir.join("tasks"))?.trim().is_empty() {
        return Ok(true);
    }
    let cpus = read(&dir.join("cpus_list")).unwrap_or_default();
    Ok(!cpus.trim().is_empty())
}

/// Returns the recorded names, one a line, which may include the root.
fn recorded(record: &Path) -> Result<BTreeSet<String>> {
    match orlop_fs::read_text(record, orlop_fs::SMALL_FILE) {
        Ok(text) => {
            let names = text.lines().filter(|name| !name.is_empty());
            let is_name = |name: &str| !name.starts_with('.') && !name.contains('/');
            let names = names.filter(|name| *name == ROOT || is_name(name));
            Ok(names.map(str::to_owned).collect())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(failed("reading", record)(error)),
    }
}

fn note(record: &Path, names: &BTreeSet<String>) -> Result<()> {
    if names.is_empty() {
        return orlop_fs::remove_file(record).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(failed("removing", record)(error)),
        });
    }
    let text: String = names
        .iter()
        .flat_map(|name| [name.as_str(), "\n"])
        .collect();
    orlop_fs::write_file(record, 0o600, Outlives::Kill, text.as_bytes())
        .map_err(failed("writing", record))
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
