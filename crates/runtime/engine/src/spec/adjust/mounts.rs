//! NRI adjustments of mounts.

use std::path::Path;

use orlop_cri_api::v1::MountPropagation;
use orlop_nri::v1alpha1 as nri;
use orlop_oci_types::{Mount, Spec};

use super::field;
use crate::spec::Error;
use crate::spec::clean_path::clean;
use crate::spec::propagation::HostMounts;
use crate::spec::selinux::{Relabel, relabel};

/// The mount option that asks for relabelling with the container's label.
const RELABEL: &str = "relabel";

pub(super) fn adjust(wanted: &[nri::Mount], spec: &mut Spec) -> Result<(), Error> {
    let mut host = HostMounts::default();
    for mount in wanted {
        if let Some(destination) = orlop_nri::removed(&mount.destination) {
            let destination = clean(destination);
            spec.mounts.retain(|own| own.destination != destination);
        } else {
            add(mount, &mut host, spec)?;
        }
    }
    if !wanted.is_empty() {
        // Deeper paths come later; otherwise a mount above would hide them.
        spec.mounts
            .sort_by_key(|mount| mount.destination.matches('/').count());
    }
    Ok(())
}

fn add(wanted: &nri::Mount, host: &mut HostMounts, spec: &mut Spec) -> Result<(), Error> {
    let name = field("mounts");
    if !wanted.destination.starts_with('/') || wanted.destination.contains('\0') {
        let problem = format!("{:?} is not an absolute path", wanted.destination);
        return Err(Error::invalid(name, problem));
    }
    let destination = clean(&wanted.destination);
    if destination == "/" {
        let problem = "the root filesystem itself cannot be replaced";
        return Err(Error::invalid(name, problem));
    }
    let linux = spec.linux.get_or_insert_default();
    let has = |option: &str| wanted.options.iter().any(|own| own == option);
    let source = Path::new(&wanted.source);
    let root = &mut linux.rootfs_propagation;
    if has("rshared") {
        host.check(MountPropagation::PropagationBidirectional, source, &name)?;
        "rshared".clone_into(root);
    } else if has("rslave") {
        host.check(MountPropagation::PropagationHostToContainer, source, &name)?;
        if root != "rshared" {
            "rslave".clone_into(root);
        }
    }
    if has(RELABEL) && !linux.mount_label.is_empty() {
        relabel(source, &linux.mount_label, &name, Relabel::All)?;
    }
    let options = wanted.options.iter().filter(|own| *own != RELABEL);
    let mount = Mount {
        destination: destination.clone(),
        kind: wanted.r#type.clone(),
        source: wanted.source.clone(),
        options: options.cloned().collect(),
        ..Mount::default()
    };
    spec.mounts.retain(|own| own.destination != destination);
    spec.mounts.push(mount);
    Ok(())
}
