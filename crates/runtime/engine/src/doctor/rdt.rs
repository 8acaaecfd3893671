//! Check of the classes for cache allocation and memory bandwidth (RDT).

use orlop_rdt::{Machine, Mount, plan};

use super::Finding;
use crate::config::RdtClasses;

const AREA: &str = "rdt";

/// Checks the classes without creating any.
pub(super) fn examine(classes: Option<&RdtClasses>) -> Vec<Finding> {
    let Some(classes) = classes else {
        return Vec::new();
    };
    let found = Mount::find().map_err(|error| error.to_string());
    match found.and_then(|mount| looked(mount.as_ref(), classes)) {
        Ok(findings) => findings,
        Err(problem) => vec![Finding::problem(
            AREA,
            format!("containers cannot use the classes of containers.rdt_config: {problem}"),
            "fix the file or the hardware settings, then run `orlop config reload`",
        )],
    }
}

fn looked(mount: Option<&Mount>, classes: &RdtClasses) -> Result<Vec<Finding>, String> {
    let mount = mount.ok_or("resctrl is not mounted")?;
    let machine = Machine::read(mount).map_err(|error| error.to_string())?;
    let plan = plan(&classes.partitions, &machine).map_err(|error| error.to_string())?;
    let count = plan.groups.len();
    let text = format!("all classes of containers.rdt_config are available (classes: {count})");
    let notes = plan.notes.iter().map(|note| {
        let remedy = "no action is needed if this is intended";
        Finding::warning(AREA, note.to_string(), remedy)
    });
    Ok(std::iter::once(Finding::ok(AREA, text))
        .chain(notes)
        .collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use orlop_cri_api::inspection::FindingLevel;
    use orlop_rdt::Partitions;

    use super::*;

    #[test]
    fn a_machine_that_has_it_not_is_told() {
        assert!(examine(None).is_empty());
        let text = "partitions: {p: {mbAllocation: [50%], classes: {a: }}}\n";
        let classes = RdtClasses {
            partitions: Partitions::parse(Path::new("rdt.yaml"), text).unwrap(),
            problem: None,
        };
        let problem = looked(None, &classes).unwrap_err();
        assert!(problem.contains("not mounted"), "{problem}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("schemata"), "").unwrap();
        let mount = Mount {
            root: dir.path().to_owned(),
            in_mbps: false,
        };
        let findings = looked(Some(&mount), &classes).unwrap();
        assert_eq!(findings[0].level(), FindingLevel::Ok);
        assert_eq!(findings[1].level(), FindingLevel::Warning);
        assert!(
            findings[1].text.starts_with("rdt.yaml:1: "),
            "{}",
            findings[1].text
        );
    }
}
