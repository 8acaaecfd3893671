//! The resctrl groups of processor cache and memory bandwidth classes, kept in line with the partitions
//! file.

use std::path::Path;

use orlop_rdt::{Mount, Settled, settle};

use crate::config::RdtClasses;
use crate::error::{Error, Result};

/// Makes the groups at the start. If that fails, the node serves, and requests for a class are refused.
/// `others` are groups that the administrator makes.
pub fn begin(classes: &mut Option<RdtClasses>, others: &[String], record: &Path) {
    if let Err(problem) = made_here(classes.as_ref(), others, record) {
        tracing::warn!("containers.rdt_config: {problem}");
        if let Some(classes) = classes {
            classes.problem = Some(problem);
        }
    }
}

/// Makes the groups of a new configuration. If that fails, nothing changes and the configuration is
/// refused, unless the old one failed in the same way.
pub fn change(
    old: Option<&RdtClasses>,
    new: &mut Option<RdtClasses>,
    others: &[String],
    record: &Path,
) -> Result<()> {
    let made = made_here(new.as_ref(), others, record);
    judge(old, new, made)
}

fn judge(
    old: Option<&RdtClasses>,
    new: &mut Option<RdtClasses>,
    made: Result<(), String>,
) -> Result<()> {
    let Err(problem) = made else {
        return Ok(());
    };
    let earlier = old.and_then(|own| own.problem.as_ref());
    match new {
        Some(classes) if earlier == Some(&problem) => {
            classes.problem = Some(problem);
            Ok(())
        }
        _ => {
            let problem = format!("containers.rdt_config: {problem}");
            Err(Error::Precondition(problem).into())
        }
    }
}

fn made_here(classes: Option<&RdtClasses>, others: &[String], record: &Path) -> Result<(), String> {
    // Most nodes have neither, and need not read their mount table.
    if classes.is_none() && !record.exists() {
        return Ok(());
    }
    let mount = Mount::find().map_err(|error| error.to_string())?;
    made(mount.as_ref(), classes, others, record)
}

fn made(
    mount: Option<&Mount>,
    classes: Option<&RdtClasses>,
    others: &[String],
    record: &Path,
) -> Result<(), String> {
    let wanted = classes.map(|own| &own.partitions);
    let settled = settle(mount, record, wanted, others).map_err(|error| error.to_string())?;
    tell(&settled);
    Ok(())
}

fn tell(settled: &Settled) {
    for note in &settled.notes {
        tracing::warn!("containers.rdt_config: {note}");
    }
    for group in &settled.kept {
        tracing::warn!(
            group,
            "no RDT class uses this resctrl group any longer; the daemon removes the group at a start or \
             reload after its tasks have exited"
        );
    }
    let Settled {
        made,
        changed,
        removed,
        ..
    } = settled;
    if made.len() + changed.len() + removed.len() > 0 {
        tracing::info!(?made, ?changed, ?removed, "updated resctrl groups");
    }
}

#[cfg(test)]
mod tests {
    use orlop_rdt::Partitions;

    use super::*;

    fn classes(text: &str) -> Option<RdtClasses> {
        let partitions = Partitions::parse(Path::new("rdt.yaml"), text).unwrap();
        Some(RdtClasses {
            partitions,
            problem: None,
        })
    }

    #[test]
    fn a_change_that_cannot_be_is_refused_once() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("groups");
        let root = dir.path().join("resctrl");
        let info = root.join("info/MB");
        std::fs::create_dir_all(&info).unwrap();
        for (path, text) in [
            (root.join("schemata"), "MB:0=100\n"),
            (info.join("num_closids"), "2\n"),
            (info.join("min_bandwidth"), "10\n"),
        ] {
            std::fs::write(path, text).unwrap();
        }
        let mount = Mount {
            root: root.clone(),
            in_mbps: false,
        };
        let one = classes("partitions: {p: {mbAllocation: [50%], classes: {a: }}}\n");
        made(Some(&mount), one.as_ref(), &[], &record).unwrap();
        let schemata = std::fs::read_to_string(root.join("a/schemata")).unwrap();
        assert_eq!(schemata, "MB:0=50\n");
        // One class too many for this machine.
        let mut two = classes("partitions: {p: {classes: {a: , b: }}}\n");
        let failed = || made(Some(&mount), two.as_ref(), &[], &record);
        let failed = failed();
        let refused = judge(one.as_ref(), &mut two, failed.clone()).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.starts_with("containers.rdt_config: rdt.yaml:1: "),
            "{refused}"
        );
        assert!(refused.contains("too many classes"), "{refused}");
        // The node started with this failure: everything else can still be changed.
        let mut began = two.clone();
        began.as_mut().unwrap().problem = failed.clone().err();
        assert!(judge(began.as_ref(), &mut two, failed).is_ok());
        assert!(two.unwrap().problem.unwrap().contains("too many classes"));
    }
}
