//! Reads environment files from volumes. Containers can write them, so they are untrusted.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use orlop_kubelet_rules::cri_config::EnvFiles;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::{Place, Places};

/// Size limit of an environment file in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads environment files, by volume and path. Blocks, but only briefly.
pub(crate) fn read_env_files(places: &Places, wanted: BTreeSet<(String, String)>) -> EnvFiles {
    let read = |(volume, path): &(String, String)| match places.get(volume) {
        Some(Place::Path { path: dir, .. }) => read(dir, path),
        Some(Place::Image { .. }) => Err("the volume is an image".to_owned()),
        None => Err(format!("the pod has no volume {volume:?}")),
    };
    wanted
        .into_iter()
        .map(|it| {
            let text = read(&it);
            (it, text)
        })
        .collect()
}

/// Reads a file. Links cannot leave the volume, and the open does not block on special files.
fn read(volume: &Path, path: &str) -> Result<Option<String>, String> {
    let root = rustix::fs::open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| e.to_string())?;
    let opened = openat2(
        &root,
        path.trim_start_matches('/'),
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    );
    let file = match opened {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened.map_err(|e| e.to_string())?),
    };
    let meta = file.metadata().map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let bytes = orlop_fs::read_whole(file, LARGEST).map_err(|e| e.to_string())?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_plain_files_of_the_volume_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        std::fs::create_dir_all(volume.join("in")).unwrap();
        std::fs::write(volume.join("in/file"), "A='1'").unwrap();
        std::fs::write(dir.path().join("secret"), "A='2'").unwrap();
        std::fs::write(volume.join("large"), vec![b'#'; (LARGEST + 1) as usize]).unwrap();
        symlink("in/file", volume.join("inside")).unwrap();
        symlink("/in/file", volume.join("absolute")).unwrap();
        symlink("../secret", volume.join("outside")).unwrap();
        symlink("loop", volume.join("loop")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            volume.join("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        for (path, expected) in [
            ("in/file", Some(Some("A='1'"))),
            ("/in/file", Some(Some("A='1'"))),
            ("inside", Some(Some("A='1'"))),
            ("absolute", Some(Some("A='1'"))),
            ("outside", Some(None)),
            ("none", Some(None)),
            ("in", None),
            ("loop", None),
            ("fifo", None),
            ("large", None),
        ] {
            let got = read(&volume, path).ok();
            let got = got.as_ref().map(Option::as_deref);
            assert_eq!(got, expected, "{path}");
        }
    }
}
