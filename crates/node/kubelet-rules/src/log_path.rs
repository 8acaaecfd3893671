//! Paths of container logs.

use crate::pod::Pod;

/// The length limit of a file name.
const MAX_NAME: usize = 255;

/// Returns the name of a pod's log directory.
pub fn pod_directory(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}_{}_{}", meta.namespace, meta.name, meta.uid)
}

/// Returns the path of a container's log in its pod's directory.
pub fn container_log(container: &str, restart_count: u32) -> String {
    format!("{container}/{restart_count}.log")
}

/// Returns the link name that log collectors expect, cut to the limit of a file name.
pub fn symlink_name(pod: &Pod, container: &str, id: &str) -> String {
    const SUFFIX: &str = ".log";
    let meta = &pod.metadata;
    let mut stem = format!("{}_{}_{container}-{id}", meta.name, meta.namespace);
    let mut end = stem.len().min(MAX_NAME - SUFFIX.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    stem.truncate(end);
    stem + SUFFIX
}

/// Returns the number of a container's next instance: one more than the last known. If the runtime
/// has forgotten it, the logs determine it (`3.log`, `3.log.20300101-000000`).
pub fn next_restart_count<'a>(
    last_known: Option<u32>,
    log_files: impl IntoIterator<Item = &'a str>,
) -> u32 {
    last_known
        .or_else(|| log_files.into_iter().filter_map(count_of).max())
        .map_or(0, |last| last.saturating_add(1))
}

fn count_of(file: &str) -> Option<u32> {
    let (count, rest) = file.split_once(".log")?;
    let plain = rest.is_empty() || rest.starts_with('.');
    let digits = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    (plain && digits).then(|| count.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_counts_survive_the_runtimes_memory() {
        for (known, files, expected) in [
            (None, vec![], 0),
            (Some(4), vec!["9.log"], 5),
            (None, vec!["0.log", "2.log", "1.log"], 3),
            (None, vec!["2.log", "10.log.20300101-000000.gz"], 11),
            (None, vec!["x.log", ".log", "5.logs", "+7.log", "6.txt"], 0),
        ] {
            assert_eq!(
                next_restart_count(known, files.clone()),
                expected,
                "{files:?}"
            );
        }
    }

    #[test]
    fn symlinks_fit_into_a_name() {
        let mut pod = Pod::default();
        pod.metadata.name = "web".to_owned();
        assert_eq!(symlink_name(&pod, "c", "12ab"), "web_default_c-12ab.log");
        pod.metadata.name = "w".repeat(300);
        let name = symlink_name(&pod, "c", "12ab");
        assert_eq!(name.len(), 255);
        assert!(name.starts_with("www") && name.ends_with("w.log"));
    }
}
