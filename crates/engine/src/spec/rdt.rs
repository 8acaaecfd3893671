//! Classes of processor caches and memory bandwidth (Intel RDT, AMD QoS): a container is put into
//! one that the administrator has made.

use std::path::Path;

use orlop_oci::IntelRdt;

use super::Error;
use super::classes::{Kind, asked};
use super::input::{Known, Policy};

/// Where the kernel has the classes.
const RESCTRL: &str = "/sys/fs/resctrl";

/// The class of a container, if it asks for one.
pub(super) fn class(known: &Known<'_>) -> Result<Option<IntelRdt>, Error> {
    class_in(known, Path::new(RESCTRL))
}

fn class_in(known: &Known<'_>, resctrl: &Path) -> Result<Option<IntelRdt>, Error> {
    let Some((class, annotation)) = asked(Kind::Rdt, known.config, known.pod_config)? else {
        return Ok(None);
    };
    named(
        class,
        &format!("annotation {annotation}"),
        known.policy,
        resctrl,
    )
    .map(Some)
}

/// The class that a plugin chooses.
pub(super) fn of_plugin(class: &str, field: &str, policy: &Policy) -> Result<IntelRdt, Error> {
    named(class, field, policy, Path::new(RESCTRL))
}

fn named(class: &str, field: &str, policy: &Policy, resctrl: &Path) -> Result<IntelRdt, Error> {
    let offered = &policy.rdt_classes;
    if !offered.iter().any(|own| own == class) {
        let problem = if offered.is_empty() {
            format!("no class {class:?}: containers.rdt_classes offers none on this node")
        } else {
            format!("no class {class:?}; there are: {}", offered.join(", "))
        };
        return Err(Error::unmet(field, problem));
    }
    if !resctrl.join("schemata").exists() {
        let problem = "this node's processor has no RDT, or resctrl is not mounted on \
                       /sys/fs/resctrl";
        return Err(Error::unmet(field, problem));
    }
    if !resctrl.join(class).is_dir() {
        let problem = format!(
            "the class {class:?} is configured, but not made: there is no {}",
            resctrl.join(class).display()
        );
        return Err(Error::unmet(field, problem));
    }
    Ok(IntelRdt {
        clos_id: class.to_owned(),
        ..IntelRdt::default()
    })
}
