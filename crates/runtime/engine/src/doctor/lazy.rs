//! Check of the requirements for layers that are mounted while they are fetched.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use orlop_image_store::LazySettings;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsopen};

use super::Finding;

const AREA: &str = "lazy images";

/// Device through which the server of lazy layers receives reads.
const FUSE: &str = "/dev/fuse";

/// Returns nothing if lazy images are disabled.
pub(super) fn examine(settings: &LazySettings) -> Vec<Finding> {
    if !settings.enabled {
        return Vec::new();
    }
    vec![program(&settings.program), fuse(Path::new(FUSE)), erofs()]
}

fn program(path: &Path) -> Finding {
    if path.is_file() {
        return Finding::ok(AREA, format!("{} exists", path.display()));
    }
    Finding::problem(
        AREA,
        format!(
            "{} is missing, but images.lazy is \"auto\"; images are pulled completely",
            path.display()
        ),
        "install orlop-lazy next to orlop, or set images.lazy = \"never\"",
    )
}

fn fuse(path: &Path) -> Finding {
    let shown = path.display();
    let opened = File::options().read(true).write(true).open(path);
    let Err(error) = opened else {
        return Finding::ok(AREA, format!("{shown} can be opened"));
    };
    if error.kind() == io::ErrorKind::NotFound {
        return Finding::problem(
            AREA,
            format!("{shown} is missing; images are pulled completely"),
            "load the module (`modprobe fuse`), or run a kernel with CONFIG_FUSE_FS; if \
             orlop runs in a container, add the device to that container",
        );
    }
    Finding::problem(
        AREA,
        format!("{shown} cannot be opened ({error}); images are pulled completely"),
        "load the module (`modprobe fuse`), run as root, and allow the device (10:229) in the \
         daemon's cgroup",
    )
}

fn erofs() -> Finding {
    let opened: Result<OwnedFd, _> = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC);
    match opened {
        Ok(_) => Finding::ok(AREA, "EROFS file systems can be mounted"),
        Err(Errno::PERM) => Finding::warning(
            AREA,
            "cannot check whether EROFS file systems can be mounted",
            "run the check as root",
        ),
        Err(errno) => Finding::problem(
            AREA,
            format!(
                "EROFS file systems cannot be mounted: {errno}; partly pulled images cannot be \
                 used"
            ),
            "load the module (`modprobe erofs`), run a kernel with CONFIG_EROFS_FS, or set \
             images.lazy = \"never\"",
        ),
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::inspection::FindingLevel;

    use super::*;

    #[test]
    fn nobody_is_told_of_what_nobody_wants() {
        let mut settings = LazySettings {
            program: "/nowhere/orlop-lazy".into(),
            ..LazySettings::default()
        };
        assert!(examine(&settings).is_empty());
        settings.enabled = true;
        let findings = examine(&settings);
        assert_eq!(findings.len(), 3);
        assert_eq!(findings[0].level(), FindingLevel::Problem);
        assert!(findings[0].text.contains("/nowhere/orlop-lazy is missing"));
        assert!(findings[0].remedy.contains("install orlop-lazy"));
    }

    #[test]
    fn a_program_and_a_device_that_are_there_are_well() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        File::create(&there).unwrap();
        for finding in [program(&there), fuse(&there)] {
            assert_eq!(finding.level(), FindingLevel::Ok, "{}", finding.text);
        }
        let missing = fuse(&dir.path().join("missing"));
        assert_eq!(missing.level(), FindingLevel::Problem);
        assert!(missing.remedy.contains("modprobe fuse"));
        // A directory cannot be opened for writing.
        let closed = fuse(dir.path());
        assert_eq!(closed.level(), FindingLevel::Problem);
        assert!(closed.text.contains("cannot be opened"), "{}", closed.text);
        assert!(closed.remedy.contains("10:229"));
    }
}
