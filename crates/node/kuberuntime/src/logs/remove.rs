//! Removes a log and its rotated parts.

use std::path::Path;

use orlop_fs::LogPlace;

/// Removes a log and its rotated parts; errors are ignored. Blocks.
pub(crate) fn remove(log: &Path) {
    let Ok(place) = LogPlace::find(log) else {
        return;
    };
    let _ = place.remove(place.name());
    for part in place.parts().unwrap_or_default() {
        let _ = place.remove(&part);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_removed_through_a_link_of_its_container_leaves_the_host_s_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        let own = dir.path().join("pods/pod/app");
        for dir in [&outside, &own] {
            fs::create_dir_all(dir).unwrap();
            for name in ["0.log", "0.log.1", "1.log"] {
                fs::write(dir.join(name), "").unwrap();
            }
        }
        remove(&own.join("0.log"));
        assert!(!own.join("0.log").exists() && !own.join("0.log.1").exists());
        assert!(own.join("1.log").exists());
        fs::remove_file(own.join("1.log")).unwrap();
        fs::remove_dir(&own).unwrap();
        std::os::unix::fs::symlink(&outside, &own).unwrap();
        remove(&own.join("0.log"));
        assert_eq!(fs::read_dir(outside).unwrap().count(), 3);
    }
}
