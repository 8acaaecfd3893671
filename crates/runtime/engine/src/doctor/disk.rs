//! Check of the free space and the file system types of the daemon's directories.

use std::path::Path;

use super::Finding;
use crate::config::Config;

const AREA: &str = "disk";

/// Images will not fit in less free space than this.
const LOW_BYTES: u64 = 1 << 30;

/// Percentage of free inodes below which a problem is reported.
const LOW_INODES_PERCENT: u64 = 5;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2).
const VOLATILE: [i64; 2] = [0x0102_1994, 0x8584_58f6];

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let state = &config.state;
    let mut places = vec![&config.root];
    if config.containers_root != config.root {
        places.push(&config.containers_root);
    }
    let mut findings: Vec<Finding> = places.iter().flat_map(|place| room(place)).collect();
    places.push(state);
    findings.extend(places.into_iter().filter_map(|place| refusal(place)));
    match rustix::fs::statfs(nearest(state)) {
        Ok(found) if VOLATILE.contains(&found.f_type) => {
            findings.push(Finding::ok(
                AREA,
                format!("{} is on a tmpfs", state.display()),
            ));
        }
        Ok(_) => findings.push(Finding::warning(
            AREA,
            format!("{} is not on a tmpfs", state.display()),
            "its content survives a reboot; set `state` to a directory below /run",
        )),
        Err(errno) => findings.push(unreadable(state, errno)),
    }
    findings
}

fn refusal(dir: &Path) -> Option<Finding> {
    let error = orlop_fs::probe(dir).err()?;
    Some(Finding::problem(
        AREA,
        format!("{} is not writable: {error}", dir.display()),
        "see the kernel log for the reason; repair the disk and mount it again",
    ))
}

fn room(root: &Path) -> Vec<Finding> {
    let shown = root.display();
    let stat = match rustix::fs::statvfs(nearest(root)) {
        Ok(stat) => stat,
        Err(errno) => return vec![unreadable(root, errno)],
    };
    let free = stat.f_bavail * stat.f_frsize;
    let mib = free >> 20;
    let mut findings = Vec::new();
    if free < LOW_BYTES {
        findings.push(Finding::problem(
            AREA,
            format!("{mib} MiB are free for {shown}"),
            "run `orlop image gc --unused`, or enlarge the file system",
        ));
    } else {
        findings.push(Finding::ok(AREA, format!("{mib} MiB are free for {shown}")));
    }
    // Some file systems report no inode counts.
    if stat.f_files > 0 && stat.f_favail * 100 / stat.f_files < LOW_INODES_PERCENT {
        findings.push(Finding::problem(
            AREA,
            format!(
                "{} inodes of {} are free for {shown}",
                stat.f_favail, stat.f_files
            ),
            "run `orlop image gc --unused`, or recreate the file system with more inodes",
        ));
    }
    findings
}

/// The directory itself, or its nearest existing ancestor.
fn nearest(path: &Path) -> &Path {
    path.ancestors()
        .find(|path| path.exists())
        .unwrap_or_else(|| Path::new("/"))
}

fn unreadable(path: &Path, errno: rustix::io::Errno) -> Finding {
    let text = format!("{}: {errno}", path.display());
    Finding::problem(
        AREA,
        text,
        "repair the file system or choose another directory",
    )
}
