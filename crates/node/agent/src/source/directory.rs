//! Manifests in a directory, or in a single file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_kuberuntime::text_file::read_text;
use orlop_pool::blocking;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::snapshot::Outlet;
use super::texts::Texts;
use super::watch::Watch;

/// Size limit of a manifest in bytes.
const LARGEST: u64 = 10 << 20;
/// Delay after a change, because an editor makes several in a row.
const SETTLE: Duration = Duration::from_millis(20);
/// How often to check for a missing directory.
const ABSENT: Duration = Duration::from_secs(1);

/// Sends a snapshot of `path` now and after each change. Changes without an inotify event, as on a
/// network file system, are found every `period`.
pub(crate) async fn directory(path: PathBuf, period: Duration, texts: Texts, outlet: Outlet) {
    let mut reading = Some(Reading {
        path: path.clone(),
        texts,
        stamps: BTreeMap::new(),
        first: true,
    });
    let mut watch: Option<Watch> = None;
    let mut watches_itself = false;
    loop {
        // A missing directory, or a file, is watched through its parent directory.
        let is_directory = path.is_dir();
        if watch.is_none() || watches_itself != is_directory {
            watches_itself = is_directory;
            let watched = if is_directory {
                path.as_path()
            } else {
                path.parent().unwrap_or(Path::new("/"))
            };
            watch = Watch::open(watched).ok();
        }
        let Some(mut now) = reading.take() else {
            return;
        };
        let read = blocking(move || {
            let changed = now.read();
            (now, changed)
        });
        let Ok((back, changed)) = read.await else {
            tracing::error!(path = %path.display(), "the manifest reader stopped unexpectedly");
            return;
        };
        if changed && !outlet.say(back.texts.snapshot()).await {
            return;
        }
        reading = Some(back);
        let next = Instant::now() + period;
        match &mut watch {
            None => sleep_until(next.min(Instant::now() + ABSENT)).await,
            Some(watching) => {
                let there = match timeout_at(next, watching.changed()).await {
                    Ok(Ok(there)) => {
                        sleep(SETTLE).await;
                        there & watching.forget()
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(path = %path.display(), %error, "cannot watch the manifests");
                        sleep(ABSENT).await;
                        false
                    }
                    Err(_) => true,
                };
                if !there {
                    watch = None;
                }
            }
        }
    }
}

/// Metadata that shows whether a file has changed.
type Stamp = (u64, u64, u64, i64, i64);

struct Reading {
    path: PathBuf,
    texts: Texts,
    stamps: BTreeMap<String, Stamp>,
    first: bool,
}

impl Reading {
    /// Reads the changed files; returns whether there were any.
    fn read(&mut self) -> bool {
        let files = match self.files() {
            Ok(files) => files,
            Err(error) => {
                // The content is unknown, so no pod is treated as removed.
                tracing::warn!(path = %self.path.display(), %error, "cannot read the manifests");
                return std::mem::take(&mut self.first) && error.kind() == io::ErrorKind::NotFound;
            }
        };
        let mut changed = std::mem::take(&mut self.first);
        let first = changed;
        let origins: BTreeSet<String> = files.keys().cloned().collect();
        changed |= self.stamps.keys().any(|origin| !origins.contains(origin));
        for (origin, stamp) in &files {
            if self.stamps.get(origin) == Some(stamp) {
                continue;
            }
            changed = true;
            let text = read(Path::new(origin));
            self.texts
                .put(origin, text.as_deref().map_err(ToString::to_string));
        }
        self.texts.retain(&origins);
        if first {
            self.texts.sweep(&self.path.to_string_lossy());
        }
        self.stamps = files;
        changed
    }

    /// Lists the manifest files. A missing directory has none.
    fn files(&self) -> io::Result<BTreeMap<String, Stamp>> {
        let mut files = BTreeMap::new();
        match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_dir() => {
                files.insert(self.path.to_string_lossy().into_owned(), stamp(&metadata));
                return Ok(files);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            Err(error) => return Err(error),
        }
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            // Follows links: the target counts.
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            match path.to_str() {
                _ if !metadata.is_file() => {}
                Some(text) => {
                    files.insert(text.to_owned(), stamp(&metadata));
                }
                None => {
                    tracing::warn!(path = %path.display(), "skipped a file: its name is not UTF-8");
                }
            }
        }
        Ok(files)
    }
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    )
}

fn read(path: &Path) -> Result<String, String> {
    read_text(path, LARGEST).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!(
            "is larger than {LARGEST} bytes, the limit for a manifest; split it, or move it to \
             another directory"
        ),
        _ => format!("cannot be read: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::super::{LastGood, UPDATES, Update};
    use super::*;
    use crate::manifest::SourceKind;

    const SOON: Duration = Duration::from_secs(5);

    fn pod(name: &str) -> String {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\"}}, \
             \"spec\": {{\"containers\": [{{\"name\": \"c\", \"image\": \"i:1\"}}]}}}}"
        )
    }

    async fn names(updates: &mut mpsc::Receiver<Update>, wanted: &[&str]) {
        let all = async {
            loop {
                let (_, snapshot) = updates.recv().await.unwrap();
                let pods = snapshot.pods.iter();
                let found: Vec<_> = pods
                    .map(|pod| pod.manifest["metadata"]["name"].as_str().unwrap())
                    .collect();
                if found == wanted {
                    return;
                }
            }
        };
        timeout(SOON, all)
            .await
            .unwrap_or_else(|_| panic!("{wanted:?} did not come"));
    }

    #[tokio::test]
    async fn changes_are_noticed_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("manifests");
        let kept = LastGood::open(scratch.path().join("kept")).unwrap();
        let texts = Texts::new(SourceKind::File, "n", kept);
        let (updates, mut receiver) = mpsc::channel(UPDATES);
        let outlet = Outlet { place: 0, updates };
        let task = tokio::spawn(directory(
            path.clone(),
            Duration::from_mins(10),
            texts,
            outlet,
        ));
        // The directory may be missing at first.
        names(&mut receiver, &[]).await;
        fs::create_dir(&path).unwrap();
        fs::write(path.join("b.yaml"), pod("b")).unwrap();
        names(&mut receiver, &["b-n"]).await;
        fs::write(path.join(".hidden"), pod("h")).unwrap();
        fs::write(path.join("a.json"), pod("a")).unwrap();
        names(&mut receiver, &["a-n", "b-n"]).await;
        fs::rename(path.join("b.yaml"), path.join(".b.yaml")).unwrap();
        names(&mut receiver, &["a-n"]).await;
        fs::write(path.join("a.json"), pod("c")).unwrap();
        names(&mut receiver, &["c-n"]).await;
        fs::remove_file(path.join("a.json")).unwrap();
        names(&mut receiver, &[]).await;
        task.abort();
    }

    #[test]
    fn what_is_no_manifest_is_told_and_not_waited_for() {
        let [large, pipe] =
            said_of_hostile_files("a.yaml", |path| read(path).expect_err("an error"));
        assert!(large.contains("split it"), "{large}");
        assert!(pipe.contains("not a regular file"), "{pipe}");
    }
}
