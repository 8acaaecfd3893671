//! hostPath volumes.

use std::fs::{self, File, Metadata, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use orlop_kubelet_rules::pod::HostPath;

use super::VolumeError;
use super::dirs::make_dir;

/// Checks that a hostPath has the type in the manifest, and creates it if the type says so.
pub(super) fn check(name: &str, wanted: &HostPath) -> Result<(), VolumeError> {
    let path = Path::new(&wanted.path);
    if !path.is_absolute() || path.components().any(|part| part.as_os_str() == "..") {
        let why = format!(
            "the hostPath {:?} must be absolute and must not contain ..",
            wanted.path
        );
        return Err(VolumeError::volume(name, why));
    }
    let there = fs::metadata(path).ok();
    let must = |what: &'static str, is: fn(&Metadata) -> bool| match &there {
        Some(meta) if is(meta) => Ok(()),
        _ => Err(VolumeError::HostPathType {
            path: wanted.path.clone(),
            wanted: what,
        }),
    };
    match wanted.kind.as_str() {
        "" => Ok(()),
        "DirectoryOrCreate" if there.is_none() => make_dir(path, 0o755),
        "FileOrCreate" if there.is_none() => File::create_new(path)
            .and_then(|_| fs::set_permissions(path, Permissions::from_mode(0o644)))
            .map_err(|source| VolumeError::io("create the file", path, source)),
        "Directory" | "DirectoryOrCreate" => must("directory", Metadata::is_dir),
        "File" | "FileOrCreate" => must("file", Metadata::is_file),
        "Socket" => must("socket", |meta| meta.file_type().is_socket()),
        "CharDevice" => must("character device", |meta| meta.file_type().is_char_device()),
        "BlockDevice" => must("block device", |meta| meta.file_type().is_block_device()),
        other => {
            let why = format!("unknown hostPath type {other:?}");
            Err(VolumeError::volume(name, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_held_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::write(at("file"), "").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let rows = [
            ("file", "File", true),
            ("file", "Directory", false),
            ("file", "FileOrCreate", true),
            ("file", "Socket", false),
            ("socket", "Socket", true),
            ("", "Directory", true),
            ("none", "", true),
            ("none", "File", false),
            ("none", "Directory", false),
            ("made/deep", "DirectoryOrCreate", true),
            ("made/deep", "Directory", true),
            ("made/file", "FileOrCreate", true),
            ("made/file", "File", true),
            ("made/file", "DirectoryOrCreate", false),
            ("file", "Nonsense", false),
            ("../x", "", false),
        ];
        for (name, kind, fine) in rows {
            let wanted = HostPath {
                path: at(name),
                kind: kind.to_owned(),
            };
            assert_eq!(check("v", &wanted).is_ok(), fine, "{name} {kind}");
        }
        let device = HostPath {
            path: "/dev/null".to_owned(),
            kind: "CharDevice".to_owned(),
        };
        assert!(check("v", &device).is_ok());
    }
}
