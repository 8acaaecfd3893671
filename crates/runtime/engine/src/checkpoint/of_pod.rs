//! The checkpoint of a pod: a directory with an archive for each container, and a list of them.
//!
//! The list, `pod.options`, has the format that `checkpointctl` reads; orlop's additions are annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::options::Options;
use super::{archive, capture};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::node::runtimes::Runtimes;
use crate::reach::{self, Named};
use crate::record::container::Container;
use crate::record::containers::Containers;
use crate::record::directories::remove_tree;
use crate::record::pod::{Phase, Pod};

/// The file that lists the containers.
const POD_OPTIONS: &str = "pod.options";

/// The directory of the archives.
const CONTAINERS: &str = "containers";

/// The only format version so far.
const VERSION: u32 = 1;

/// Size limit of `pod.options` in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Annotation with the name of the runtime that wrote the checkpoint.
const RUNTIME: &str = "orlop.dev/runtime";
/// Annotation with the option that it was written with.
const TCP_ESTABLISHED: &str = "orlop.dev/tcp-established";

/// The content of `pod.options`.
#[derive(Debug, Serialize, Deserialize)]
struct PodOptions {
    version: u32,
    /// Identifiers of the containers by name.
    containers: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Checks the output path of a checkpoint, which must be an empty directory.
pub fn output(path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    let invalid = |problem: String| Err(Error::invalid("output_path", problem).into());
    if !path.is_absolute() {
        return invalid("must be an absolute path".to_owned());
    }
    match std::fs::read_dir(&path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(path),
        Ok(false) => invalid(format!("{} is not empty", path.display())),
        Err(error) => invalid(format!("{} cannot be read: {error}", path.display())),
    }
}

/// Returns the containers that a client selected, if they can be checkpointed, in their locking order.
pub fn chosen(
    containers: &Containers,
    runtimes: &Runtimes,
    pod: &Pod,
    ids: &[String],
) -> Result<Vec<Arc<Container>>> {
    const FIELD: &str = "container_ids";
    if pod.phase() != Phase::Ready {
        let problem = format!("pod sandbox {} is not ready", pod.id);
        return Err(Error::Precondition(problem).into());
    }
    if ids.is_empty() {
        return Err(Error::invalid(FIELD, "is empty").into());
    }
    let mut chosen = BTreeMap::new();
    let mut names = BTreeSet::new();
    for id in ids {
        let container = containers.visible(id)?;
        if container.pod.id != pod.id {
            let problem = format!("container {id} does not belong to pod sandbox {}", pod.id);
            return Err(Error::invalid(FIELD, problem).into());
        }
        capture::check(runtimes, &container)?;
        let name = container.metadata().name;
        file_of(&name)?;
        if !names.insert(name) || chosen.insert(container.id.to_string(), container).is_some() {
            return Err(Error::invalid(FIELD, format!("contains {id} or its name twice")).into());
        }
    }
    Ok(chosen.into_values().collect())
}

/// Writes the captured containers into the directory; after a failure it is empty again.
pub async fn write(
    config: &Config,
    pod: &Arc<Pod>,
    containers: &[Arc<Container>],
    options: Options,
    output: PathBuf,
    stop: &CancellationToken,
) -> Result<()> {
    let (pod, containers, stop) = (Arc::clone(pod), containers.to_vec(), stop.clone());
    let named = vec![Named::new("output_path", &output)];
    reach::touching(config, named, move || {
        let written = write_all(&pod, &containers, options, &output, &stop);
        if written.is_err() {
            for name in [POD_OPTIONS, CONTAINERS] {
                let _ = remove_tree(&output.join(name));
            }
        }
        written
    })
    .await
}

fn write_all(
    pod: &Pod,
    containers: &[Arc<Container>],
    options: Options,
    output: &Path,
    stop: &CancellationToken,
) -> Result<()> {
    let inner = output.join(CONTAINERS);
    let failed = || Error::io(format!("writing to {}", output.display()));
    DirBuilder::new()
        .mode(0o700)
        .create(&inner)
        .map_err(failed())?;
    let mut named = BTreeMap::new();
    for container in containers {
        let name = container.metadata().name;
        let file = inner.join(file_of(&name)?);
        archive::write(&capture::directory(container), &file, stop)?;
        named.insert(name, container.id.to_string());
    }
    let annotations = [
        (RUNTIME, pod.runtime.clone()),
        (TCP_ESTABLISHED, options.tcp_established.to_string()),
    ];
    let options = PodOptions {
        version: VERSION,
        containers: named,
        annotations: annotations
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
    };
    // Written last: it marks a complete checkpoint.
    let text = serde_json::to_vec_pretty(&options).unwrap_or_default();
    archive::new_file(&output.join(POD_OPTIONS))
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .map_err(failed())
        .map_err(Into::into)
}

/// A checkpoint that a pod is restored from.
#[derive(Debug)]
pub struct Checkpoint {
    /// The archives by container name.
    pub archives: BTreeMap<String, PathBuf>,
    /// The name of the runtime that wrote it.
    pub runtime: String,
    /// The options it was written with.
    pub options: Options,
}

/// Reads a checkpoint. Blocks for as long as the path's file system does.
pub fn read(path: &str) -> Result<Checkpoint> {
    let root = PathBuf::from(path);
    if !root.is_absolute() {
        return Err(Error::invalid("checkpoint_path", "must be an absolute path").into());
    }
    let invalid = |problem: String| Error::invalid("checkpoint_path", problem);
    let file = root.join(POD_OPTIONS);
    let text = orlop_fs::read_file(&file, MAX_BYTES).map_err(|error| {
        invalid(format!(
            "contains no checkpoint: {}: {error}",
            file.display()
        ))
    })?;
    let said: PodOptions = serde_json::from_slice(&text).map_err(|error| {
        invalid(format!(
            "contains no checkpoint: {}: {error}",
            file.display()
        ))
    })?;
    if said.version != VERSION {
        let problem = format!(
            "has version {}; only version {VERSION} is supported",
            said.version
        );
        return Err(invalid(problem).into());
    }
    let mut archives = BTreeMap::new();
    for name in said.containers.into_keys() {
        let archive = root.join(CONTAINERS).join(file_of(&name)?);
        archives.insert(name, archive);
    }
    let annotation = |key: &str| said.annotations.get(key).cloned().unwrap_or_default();
    Ok(Checkpoint {
        archives,
        runtime: annotation(RUNTIME),
        options: Options {
            tcp_established: annotation(TCP_ESTABLISHED) == "true",
            ..Options::default()
        },
    })
}

/// Returns the archive name of a container. The name comes from a client and may be anything.
fn file_of(name: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(plain) {
        let problem = format!("{name:?} is not a valid file name in a checkpoint");
        return Err(Error::Precondition(problem).into());
    }
    Ok(format!("{name}.tar"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_file_names_no_archive() {
        assert_eq!(
            file_of("main-1_a.b").unwrap(),
            "main-1_a.tar".replace("_a", "_a.b")
        );
        for name in ["", ".", "..", "a/b", "../a", "a\0b", "ä"] {
            file_of(name).unwrap_err();
        }
    }

    #[test]
    fn a_checkpoint_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let told = |text: Option<&str>| {
            if let Some(text) = text {
                std::fs::write(dir.path().join(POD_OPTIONS), text).unwrap();
            }
            read(path).unwrap_err().to_string()
        };
        assert!(
            read("relative")
                .unwrap_err()
                .to_string()
                .contains("absolute")
        );
        assert!(told(None).contains("pod.options: No such file"));
        assert!(told(Some("{")).contains("contains no checkpoint"));
        let newer = r#"{"version": 2, "containers": {}}"#;
        assert!(told(Some(newer)).contains("version 2"));
        let hostile = r#"{"version": 1, "containers": {"../../etc/x": ""}}"#;
        assert!(told(Some(hostile)).contains("../../etc/x"));
    }
}
