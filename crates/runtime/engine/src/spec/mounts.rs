//! The mounts of a container: defaults, the pod's files, the image's volumes, the request's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;
use orlop_cri_api::v1;
use orlop_oci_types::{Features, IdMapping, Mount};

use super::clean_path::clean;
use super::default_mounts::{self, Situation};
use super::image_volumes;
use super::input::{Known, SpecInput};
use super::propagation::{self, HostMounts};
use super::selinux::{Relabel, relabel};
use super::timezone::{self, Timezone};
use super::userns::{IdRanges, mount_ranges};
use super::{Error, declared_volumes};

/// Options that a request may add to a bind mount.
const ADDED_OPTIONS: [&str; 12] = [
    "dev",
    "diratime",
    "exec",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "nosuid",
    "nosymfollow",
    "relatime",
    "strictatime",
    "suid",
];

/// A container's mounts, and the propagation of its root.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    pub(super) list: Vec<Mount>,
    /// `linux.rootfsPropagation`.
    pub(super) root_propagation: String,
}

/// A requested mount.
#[derive(Debug)]
pub(super) struct Asked {
    what: What,
    bind: Bind,
}

/// The source of a mount.
#[derive(Debug)]
enum What {
    /// A path of the node.
    Host(String),
    /// A directory of an image.
    Image {
        container_path: String,
        sub_path: String,
    },
}

impl Asked {
    /// Validates the mounts of a request.
    pub(super) fn read(known: &Known<'_>) -> Result<Vec<Self>, Error> {
        let mounts = known.config.mounts.iter().enumerate();
        mounts
            .map(|(index, mount)| Self::one(known, mount, format!("config.mounts[{index}]")))
            .collect()
    }

    fn one(known: &Known<'_>, mount: &v1::Mount, field: String) -> Result<Self, Error> {
        let features = known.handler.features;
        let propagation = v1::MountPropagation::try_from(mount.propagation).map_err(|_| {
            let problem = format!("unknown propagation {}", mount.propagation);
            Error::invalid(format!("{field}.propagation"), problem)
        })?;
        check_recursive_read_only(features, mount, propagation, &field)?;
        let destination = destination(&mount.container_path, &field)?;
        let of_image = image_volumes::asked_image(mount).is_some();
        // The ids of an image's files are mapped when the image is mounted.
        let (what, uids, gids) = if of_image {
            image_volumes::check(mount, &field)?;
            let image = What::Image {
                container_path: mount.container_path.clone(),
                sub_path: mount.image_sub_path.clone(),
            };
            (image, Vec::new(), Vec::new())
        } else {
            let path = &mount.host_path;
            if !path.starts_with('/') || path.contains('\0') {
                let problem = format!("{path:?} is not an absolute path");
                return Err(Error::invalid(format!("{field}.host_path"), problem));
            }
            let uids = mount_ranges(&mount.uid_mappings, &format!("{field}.uidMappings"))?;
            let gids = mount_ranges(&mount.gid_mappings, &format!("{field}.gidMappings"))?;
            (What::Host(path.clone()), uids, gids)
        };
        check_mapped(features, (&uids, &gids), &field)?;
        let bind = Bind {
            options: added_options(features, mount, &field)?,
            destination,
            source: PathBuf::new(),
            readonly: mount.readonly,
            recursive_read_only: mount.recursive_read_only,
            propagation,
            relabel: mount.selinux_relabel && !of_image,
            uids,
            gids,
            field,
        };
        Ok(Self { what, bind })
    }
}

/// Plans the mounts. Makes missing host paths and the image's volumes on the node.
pub(super) fn plan(
    input: &SpecInput<'_>,
    asked: Vec<Asked>,
    situation: &Situation<'_>,
    file_label: &str,
) -> Result<Mounts, Error> {
    let mut binds = Vec::new();
    for mount in asked {
        binds.push(Bind::of_request(mount, input)?);
    }
    let taken: Vec<String> = binds.iter().map(|bind| bind.destination.clone()).collect();
    for bind in pod_files(input, situation.ranges) {
        if !taken.contains(&bind.destination) {
            binds.push(bind);
        }
    }
    if let Some(zone) = &input.known.policy.timezone
        && !taken
            .iter()
            .any(|path| path == timezone::DESTINATION || path == "/etc")
    {
        binds.push(zone_file(zone));
    }
    if !input.known.policy.ignore_image_volumes {
        for volume in declared_volumes::prepare(input, &taken)? {
            binds.push(Bind::of_volume(volume, situation.ranges));
        }
    }
    // Deeper paths come later; otherwise a mount above would hide them.
    binds.sort_by_key(|bind| bind.destination.matches('/').count());

    let mut mounts = Mounts::default();
    let replaced = |path: &str| binds.iter().any(|bind| bind.destination == path);
    let base = input.known.handler.rules.base.as_ref();
    let base = base.map(super::BaseSpec::mounts).unwrap_or_default();
    for mount in default_mounts::list(situation, base) {
        let below_replaced_dev = mount.destination.starts_with("/dev/") && replaced("/dev");
        if !below_replaced_dev && !replaced(&mount.destination) {
            mounts.list.push(mount);
        }
    }
    let mut host_mounts = HostMounts::default();
    for bind in binds {
        bind.add_to(&mut mounts, &mut host_mounts, input, file_label)?;
    }
    Ok(mounts)
}

/// Returns the mounts for the container's status: the request's, with digests of images.
pub(super) fn report(input: &SpecInput<'_>) -> Vec<v1::Mount> {
    let with_digest = |mount: &v1::Mount| {
        let mut mount = mount.clone();
        let digest = image_volumes::find(&mount.container_path, input.image_mounts)
            .map(|image| image.digest);
        if let (Some(image), Some(digest)) = (&mut mount.image, digest) {
            digest.clone_into(&mut image.image_ref);
        }
        mount
    };
    let mounts = input.known.config.mounts.iter();
    mounts.map(with_digest).collect()
}

/// A bind mount that is being prepared.
#[derive(Debug)]
struct Bind {
    field: String,
    destination: String,
    /// Empty until it is looked up.
    source: PathBuf,
    readonly: bool,
    recursive_read_only: bool,
    propagation: v1::MountPropagation,
    relabel: bool,
    uids: Vec<IdMapping>,
    gids: Vec<IdMapping>,
    options: Vec<String>,
}

impl Bind {
    fn of_request(asked: Asked, input: &SpecInput<'_>) -> Result<Self, Error> {
        let Asked { what, bind } = asked;
        let images = input.image_mounts;
        let source = match &what {
            What::Host(path) if input.known.handler.shares_sandbox && is_guests(path) => {
                path.into()
            }
            What::Host(path) => host_source(path, &format!("{}.host_path", bind.field))?,
            What::Image {
                container_path,
                sub_path,
            } => image_volumes::source((container_path, sub_path), images, &bind.field)?,
        };
        Ok(Self { source, ..bind })
    }

    fn of_volume(volume: declared_volumes::Volume, ranges: Option<&IdRanges>) -> Self {
        Self::internal(&volume.destination, &volume.directory, ranges)
    }

    fn internal(destination: &str, source: &Path, ranges: Option<&IdRanges>) -> Self {
        Self {
            field: destination.to_owned(),
            destination: destination.to_owned(),
            source: source.to_path_buf(),
            readonly: false,
            recursive_read_only: false,
            propagation: v1::MountPropagation::PropagationPrivate,
            relabel: true,
            uids: ranges.map(|ranges| ranges.uids.clone()).unwrap_or_default(),
            gids: ranges.map(|ranges| ranges.gids.clone()).unwrap_or_default(),
            options: Vec::new(),
        }
    }

    fn add_to(
        self,
        mounts: &mut Mounts,
        host_mounts: &mut HostMounts,
        input: &SpecInput<'_>,
        file_label: &str,
    ) -> Result<(), Error> {
        check_mapped(
            input.known.handler.features,
            (&self.uids, &self.gids),
            &self.field,
        )?;
        host_mounts.check(self.propagation, &self.source, &self.field)?;
        if self.relabel && !file_label.is_empty() {
            let known = &input.known;
            let defaults = &known.policy.default_annotations;
            let how = Relabel::of(known.handler.rules, known.pod_config, defaults);
            relabel(&self.source, file_label, &self.field, how)?;
        }
        let (propagation, root) = propagation::options(self.propagation);
        if let Some(root) = root.filter(|_| mounts.root_propagation != "rshared") {
            root.clone_into(&mut mounts.root_propagation);
        }
        let access = match (self.readonly, self.recursive_read_only) {
            (true, true) => "rro",
            (true, false) => "ro",
            (false, _) => "rw",
        };
        let mut options = vec![
            "rbind".to_owned(),
            propagation.to_owned(),
            access.to_owned(),
        ];
        options.extend(self.options);
        let source = self.source.into_os_string().into_string().map_err(|path| {
            Error::invalid(
                self.field,
                format!("the path {} is not UTF-8", path.display()),
            )
        })?;
        mounts.list.push(Mount {
            destination: self.destination,
            kind: "bind".to_owned(),
            source,
            options,
            uid_mappings: self.uids,
            gid_mappings: self.gids,
        });
        Ok(())
    }
}

/// Returns the mounts of the pod's host name, hosts, resolver and shared memory.
fn pod_files(input: &SpecInput<'_>, ranges: Option<&IdRanges>) -> Vec<Bind> {
    let files = &input.pod.files;
    let security = input
        .known
        .config
        .linux
        .as_ref()
        .and_then(|linux| linux.security_context.as_ref());
    let readonly = security.is_some_and(|security| security.readonly_rootfs);
    let mut binds = Vec::new();
    for (destination, source) in [
        ("/etc/hostname", files.hostname),
        ("/etc/hosts", files.hosts),
        ("/etc/resolv.conf", files.resolv_conf),
    ] {
        if let Some(source) = source {
            binds.push(Bind {
                readonly,
                ..Bind::internal(destination, source, ranges)
            });
        }
    }
    if let Some(shm) = files.shm {
        // The kernel made it, and it starts empty: its ids need no mapping. It was mounted with its label, and the
        // node's own keeps its label.
        let options = ["nosuid", "noexec", "nodev"].map(str::to_owned).to_vec();
        binds.push(Bind {
            relabel: false,
            options,
            ..Bind::internal("/dev/shm", shm, None)
        });
    }
    binds
}

/// Returns the mount of a time zone file. Everybody may read it: it needs no id mapping and keeps its
/// label.
fn zone_file(zone: &Timezone) -> Bind {
    let options = ["nosuid", "noexec", "nodev"].map(str::to_owned).to_vec();
    Bind {
        readonly: true,
        relabel: false,
        options,
        ..Bind::internal(timezone::DESTINATION, zone.path(), None)
    }
}

/// Refuses id mappings that the handler does not support.
fn check_mapped(
    features: &Features,
    (uids, gids): (&[IdMapping], &[IdMapping]),
    field: &str,
) -> Result<(), Error> {
    let mapped = !uids.is_empty() || !gids.is_empty();
    if mapped && !features.idmapped_mounts() {
        let problem = "the runtime handler does not support ID-mapped mounts";
        return Err(Error::unmet(field, problem));
    }
    Ok(())
}

fn check_recursive_read_only(
    features: &Features,
    mount: &v1::Mount,
    propagation: v1::MountPropagation,
    field: &str,
) -> Result<(), Error> {
    if !mount.recursive_read_only {
        return Ok(());
    }
    let field = format!("{field}.recursive_read_only");
    if !mount.readonly {
        return Err(Error::invalid(field, "is set, but readonly is not"));
    }
    if propagation != v1::MountPropagation::PropagationPrivate {
        return Err(Error::invalid(field, "requires private propagation"));
    }
    if !features.recursive_read_only() {
        return Err(Error::RecursiveReadOnlyUnsupported { field });
    }
    Ok(())
}

/// Returns a path in the container: absolute, normalized, not the root.
pub(super) fn destination(path: &str, field: &str) -> Result<String, Error> {
    let field = format!("{field}.container_path");
    if !path.starts_with('/') {
        return Err(Error::invalid(
            field,
            format!("{path:?} is not an absolute path"),
        ));
    }
    if path.contains('\0') {
        return Err(Error::invalid(field, "contains a NUL character"));
    }
    let clean = clean(path);
    if clean == "/" {
        return Err(Error::invalid(
            field,
            "the root filesystem itself cannot be replaced",
        ));
    }
    Ok(clean)
}

/// Resolves the links of a host path, and makes a directory if it does not exist.
fn host_source(path: &str, field: &str) -> Result<PathBuf, Error> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path)
                .map_err(|error| Error::io(field, format!("creating {path:?}"), error))?;
            fs::canonicalize(path)
        }
        found => found,
    }
    .map_err(|error| Error::io(field, format!("looking up {path:?}"), error))
}

/// Whether the path is a volume that a guest mounts (Kata's direct volumes). The guest knows it only by
/// this exact path.
fn is_guests(path: &str) -> bool {
    let volumes = Path::new("/run/kata-containers/shared/direct-volumes");
    let volume = volumes.join(BASE64_URL_SAFE.encode(path));
    volume.join("mountInfo.json").exists()
}

fn added_options(
    features: &Features,
    mount: &v1::Mount,
    field: &str,
) -> Result<Vec<String>, Error> {
    let known = &features.mount_options;
    for option in &mount.mount_options {
        let field = || format!("{field}.mount_options");
        if !ADDED_OPTIONS.contains(&option.as_str()) {
            let problem = format!(
                "{option:?} is not supported; use one of {}",
                ADDED_OPTIONS.join(", ")
            );
            return Err(Error::invalid(field(), problem));
        }
        // A runtime that lists no options has not reported its features.
        if !known.is_empty() && !known.contains(option) {
            let problem = format!("the runtime handler does not support {option:?}");
            return Err(Error::unmet(field(), problem));
        }
    }
    Ok(mount.mount_options.clone())
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
