//! `emptyDir` volumes, on disk or in memory.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use orlop_kubelet_rules::cri_config::pod_limit;
use orlop_kubelet_rules::pod::{EmptyDir, Pod};
use rustix::mount::{MountFlags, mount};

use super::VolumeError;
use super::dirs::make_dir;

/// Creates an `emptyDir` volume, on a tmpfs if requested.
pub(super) fn make(
    dir: &Path,
    name: &str,
    pod: &Pod,
    wanted: &EmptyDir,
    node_memory: u64,
) -> Result<(), VolumeError> {
    make_dir(dir, 0o777)?;
    match wanted.medium.as_str() {
        "" => {}
        "Memory" => {
            let limits = [
                wanted
                    .size_limit
                    .map(orlop_kubelet_rules::pod::Quantity::units),
                pod_limit(pod, "memory").map(orlop_kubelet_rules::pod::Quantity::units),
                i64::try_from(node_memory).ok(),
            ];
            let size = limits.into_iter().flatten().filter(|size| *size > 0).min();
            let data = size.map_or_else(String::new, |size| format!("size={size}"));
            mount_once(dir, "tmpfs", &data)?;
        }
        medium => {
            let Some(size) = medium.strip_prefix("HugePages") else {
                let why = format!("unknown medium {medium:?}; use Memory or HugePages");
                return Err(VolumeError::volume(name, why));
            };
            let size = match size.strip_prefix('-') {
                Some(size) => size.to_owned(),
                None => only_huge_page(pod).ok_or_else(|| {
                    let why = "the medium HugePages needs containers that all use the same huge page \
                         size";
                    VolumeError::volume(name, why)
                })?,
            };
            let size = size.trim_end_matches('i');
            mount_once(dir, "hugetlbfs", &format!("pagesize={size}"))?;
        }
    }
    fs::set_permissions(dir, Permissions::from_mode(0o777))
        .map_err(|source| VolumeError::io("set the mode of", dir, source))
}

/// Mounts a tmpfs for files that must not reach a disk.
pub(super) fn secret_dir(dir: &Path) -> Result<(), VolumeError> {
    make_dir(dir, 0o755)?;
    mount_once(dir, "tmpfs", "mode=0755,size=16m")
}

fn mount_once(dir: &Path, kind: &str, data: &str) -> Result<(), VolumeError> {
    if is_mount_point(dir) {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = CString::new(data).unwrap_or_default();
    mount(kind, dir, kind, flags, options.as_c_str())
        .map_err(|source| VolumeError::io("mount a file system on", dir, source.into()))
}

/// Whether a directory created here is a mount point.
pub(super) fn is_mount_point(dir: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    dir.parent()
        .is_some_and(|parent| device(dir).is_some() && device(dir) != device(parent))
}

fn only_huge_page(pod: &Pod) -> Option<String> {
    let mut sizes: Vec<_> = pod
        .spec
        .init_and_regular()
        .flat_map(|c| c.resources.limits.keys().chain(c.resources.requests.keys()))
        .filter_map(|name| name.strip_prefix("hugepages-"))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    match sizes[..] {
        [size] => Some(size.to_owned()),
        _ => None,
    }
}
