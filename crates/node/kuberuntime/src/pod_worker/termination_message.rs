//! The termination messages of containers.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_cri_api::log::Line;
use orlop_cri_api::v1;
use orlop_fs::LogPlace;
use orlop_kubelet_rules::labels;
use orlop_kubelet_rules::pod::Pod;
use orlop_pool::{Place, Refused};
use tokio::time::timeout;

/// How many bytes at the end of the file and of the log count.
const MAX_FILE: u64 = 4096;
const MAX_LOG: usize = 2048;
const MAX_LOG_LINES: usize = 80;
/// How many bytes of the log's end are read: runtimes split lines at 16 KiB, and Docker's files use
/// up to six bytes for one.
const READ_LOG: u64 = 128 << 10;
/// Size limit of all termination messages of a pod together.
const MAX_POD: usize = 12 * 1024;

/// The file may lie in a volume whose server is gone.
static READING: Place = Place::new("reading termination messages", 32, 2, 4096);
/// The file is short, so this is enough.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the termination messages of containers, by their ids. If no thread is free, the container
/// is missing and read at the next call.
pub(super) async fn of_all(
    uid: &str,
    ended: Vec<v1::ContainerStatus>,
) -> impl Iterator<Item = (String, String)> + use<> {
    let said = ended.into_iter().map(async |status| {
        let id = status.id.clone();
        let words = in_time(uid, PATIENCE, move || read(&status)).await;
        words.ok().map(|words| (id, words))
    });
    join_all(said).await.into_iter().flatten()
}

async fn in_time(
    uid: &str,
    patience: Duration,
    read: impl FnOnce() -> String + Send + 'static,
) -> Result<String, Refused> {
    match timeout(patience, READING.run_for(uid, read)).await {
        Ok(read) => read,
        Err(_) => Ok(format!(
            "cannot read the termination message: its file has not responded for {patience:?}"
        )),
    }
}

/// Reads a termination message: the end of its file, or of its log if the container failed, wrote
/// no file and its policy allows it. Blocks.
pub(super) fn read(status: &v1::ContainerStatus) -> String {
    let annotation = |key: &str| status.annotations.get(key).map(String::as_str);
    let path = annotation(labels::TERMINATION_MESSAGE_PATH).unwrap_or_default();
    let file = status
        .mounts
        .iter()
        .find(|mount| !path.is_empty() && mount.container_path == path)
        .and_then(|mount| tail(Path::new(&mount.host_path), MAX_FILE))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    if !file.is_empty() {
        return file;
    }
    let falls_back =
        annotation(labels::TERMINATION_MESSAGE_POLICY) == Some("FallbackToLogsOnError");
    if falls_back && status.exit_code != 0 && status.reason != "ContainerCannotRun" {
        return end_of_log(Path::new(&status.log_path), &status.id);
    }
    String::new()
}

/// Truncates a message to the container's share of the pod's limit.
pub(super) fn share(mut words: String, pod: &Pod) -> String {
    let spec = &pod.spec;
    let containers = spec.init_and_regular().count() + spec.ephemeral_containers.len();
    let mut end = MAX_POD / containers.max(1);
    if words.len() > end {
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        words.truncate(end);
    }
    words
}

fn end_of_log(path: &Path, id: &str) -> String {
    let log = LogPlace::find(path).and_then(|place| place.read(id));
    let Some(bytes) = log.ok().and_then(|log| end_of(log, READ_LOG)) else {
        return String::new();
    };
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines: Vec<_> = lines.filter_map(|line| Line::parse(line).ok()).collect();
    let mut entries: Vec<_> = lines.iter().map(Line::entry).collect();
    let lines = entries.iter().rev().filter(|entry| !entry.partial);
    let whole = lines.take(MAX_LOG_LINES + 1).count();
    if whole > MAX_LOG_LINES {
        // Cut after the last complete line before those that count.
        let mut seen = 0;
        let from = entries.iter().rposition(|entry| {
            seen += usize::from(!entry.partial);
            seen > MAX_LOG_LINES
        });
        entries.drain(..=from.unwrap_or(0));
    }
    let mut text = Vec::new();
    for entry in entries {
        text.extend_from_slice(entry.content);
        if !entry.partial {
            text.push(b'\n');
        }
    }
    let from = text.len().saturating_sub(MAX_LOG);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

/// Reads the last bytes of a regular file. The container can replace it with a pipe or a link, so
/// the open neither follows links nor blocks.
fn tail(path: &Path, length: u64) -> Option<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .ok()?;
    end_of(file, length)
}

fn end_of(file: File, length: u64) -> Option<Vec<u8>> {
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    orlop_fs::read_end(file, length).ok()
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn words_on_a_file_system_that_hangs_are_given_up_and_keep_no_thread_of_the_node_s() {
        let mut releases = Vec::new();
        let hung = (0..100).map(|pod| {
            let (release, held) = std::sync::mpsc::channel::<()>();
            releases.push(release);
            tokio::spawn(async move {
                let read = move || {
                    let _ = held.recv();
                    String::new()
                };
                in_time(&pod.to_string(), Duration::from_millis(500), read).await
            })
        });
        let hung: Vec<_> = hung.collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let own = timeout(Duration::from_secs(10), orlop_pool::blocking(|| 7)).await;
        assert_eq!(own.expect("a thread of the node's").unwrap(), 7);
        for each in hung {
            let said = each.await.unwrap().unwrap();
            assert!(said.contains("has not responded"), "{said}");
        }
        drop(releases);
    }

    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn words_come_from_the_file_and_else_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let (file, log) = (dir.path().join("file"), dir.path().join("log"));
        let mut lines = String::new();
        for n in 0..100 {
            let _ = writeln!(lines, "2026-01-02T03:04:05Z stdout F line {n}");
        }
        std::fs::write(&log, &lines).unwrap();
        let status = |policy: &str, exit_code: i32, written: &str| {
            std::fs::write(&file, written).unwrap();
            v1::ContainerStatus {
                exit_code,
                log_path: log.display().to_string(),
                mounts: vec![v1::Mount {
                    container_path: "/dev/termination-log".to_owned(),
                    host_path: file.display().to_string(),
                    ..v1::Mount::default()
                }],
                annotations: [
                    (
                        labels::TERMINATION_MESSAGE_PATH.to_owned(),
                        "/dev/termination-log".to_owned(),
                    ),
                    (
                        labels::TERMINATION_MESSAGE_POLICY.to_owned(),
                        policy.to_owned(),
                    ),
                ]
                .into(),
                ..v1::ContainerStatus::default()
            }
        };
        assert_eq!(read(&status("File", 1, "why")), "why");
        assert_eq!(read(&status("FallbackToLogsOnError", 1, "why")), "why");
        assert_eq!(read(&status("File", 1, "")), "");
        assert_eq!(read(&status("FallbackToLogsOnError", 0, "")), "");
        let fallen = read(&status("FallbackToLogsOnError", 1, ""));
        assert_eq!(fallen.lines().count(), 80);
        assert!(
            fallen.starts_with("line 20\n") && fallen.ends_with("line 99\n"),
            "{fallen}"
        );
        let long = "x".repeat(5000) + "end";
        let cut = read(&status("File", 0, &long));
        assert!(cut.len() == 4096 && cut.ends_with("end"));

        let mut linked = status("File", 1, "");
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&log, &file).unwrap();
        assert_eq!(read(&linked), "", "a link is not followed");
        linked.mounts.clear();
        assert_eq!(read(&linked), "");
    }

    #[test]
    fn words_of_a_log_of_docker_s_own_come_as_those_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let engines = dir.path().join("containers/abc");
        std::fs::create_dir_all(&engines).unwrap();
        let engines = engines.join("abc-json.log");
        let log = dir.path().join("0.log");
        std::os::unix::fs::symlink(&engines, &log).unwrap();
        let end = |said: &[String]| {
            let line = |text: &String| {
                let log = serde_json::Value::from(text.as_str());
                let time = "2026-01-02T03:04:05.000000006Z";
                format!("{{\"log\":{log},\"stream\":\"stderr\",\"time\":\"{time}\"}}\n")
            };
            std::fs::write(&engines, said.iter().map(line).collect::<String>()).unwrap();
            end_of_log(&log, "abc")
        };
        let lines: Vec<_> = (0..100).map(|n| format!("line {n}\n")).collect();
        let fallen = end(&lines);
        assert_eq!(fallen.lines().count(), 80);
        assert!(
            fallen.starts_with("line 20\n") && fallen.ends_with("line 99\n"),
            "{fallen}"
        );
        // A line in parts of the size that the engine writes, all of it escaped.
        let parts = ["\u{1b}".repeat(16 << 10), "the end\n".to_owned()];
        let fallen = end(&parts);
        assert_eq!(fallen.len(), MAX_LOG);
        assert!(fallen.ends_with("\u{1b}the end\n"), "{fallen:?}");
    }

    #[test]
    fn many_containers_have_less_to_say_each() {
        for (containers, ephemeral, length) in
            [(1, 0, 4096), (3, 0, 4096), (4, 0, 3072), (5, 1, 2048)]
        {
            let of = |n: usize| vec![serde_json::json!({"name": "c", "image": "i"}); n];
            let pod: Pod = serde_json::from_value(serde_json::json!({"spec":
                {"containers": of(containers), "ephemeralContainers": of(ephemeral)}}))
            .unwrap();
            assert_eq!(share("x".repeat(4096), &pod).len(), length, "{containers}");
            // No character is cut in half.
            assert!(share("\u{20ac}".repeat(1365), &pod).len() <= length);
        }
    }
}
