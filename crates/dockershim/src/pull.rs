//! Image pulls through the engine, with a timeout for missing progress.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::timeout;

use crate::credentials;
use crate::docker::{Docker, RegistryAuth, Reply};
use crate::error::{Error, Result, chain};

/// Maximum length of a progress line.
const LONGEST: usize = 1 << 20;
/// Maximum number of layers whose bytes are counted.
const MOST_LAYERS: usize = 1024;

/// The result of a pull.
#[derive(Debug)]
pub(crate) struct Pulled {
    pub(crate) id: String,
    /// Downloaded bytes.
    pub(crate) bytes: u64,
}

/// Pulls images through the engine. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Puller {
    docker: Arc<Docker>,
    /// Files with the node's own registry credentials.
    credential_files: Arc<[PathBuf]>,
    /// A pull without progress for this long is aborted.
    patience: Duration,
}

impl Puller {
    pub(crate) fn new(
        docker: Arc<Docker>,
        credential_files: &[PathBuf],
        patience: Duration,
    ) -> Self {
        Self {
            docker,
            credential_files: credential_files.into(),
            patience,
        }
    }

    /// Returns the client of the engine that pulls.
    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Pulls an image.
    pub(crate) async fn pull(&self, image: &str, auth: Option<RegistryAuth>) -> Result<Pulled> {
        let (repository, tag) = parted(image)?;
        let auth = match auth {
            Some(auth) => Some(auth),
            None => credentials::of_node(&self.credential_files, repository).await,
        };
        let failed = |problem: String| Error::Pull {
            image: image.to_owned(),
            problem,
        };
        let reply = self.docker.pull(repository, tag, auth.as_ref()).await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if error.is_absence() => {
                return Err(Error::engine(format!("pulling image {image:?}"))(error).into());
            }
            Err(error) => return Err(failed(error.to_string()).into()),
        };
        let followed = follow(reply, self.patience).await;
        if followed.is_err() {
            self.docker.operations().pull_failed();
        }
        let bytes = followed.map_err(failed)?;
        let found = self.docker.image(image).await;
        let found = found.map_err(Error::engine(format!(
            "inspecting the pulled image {image:?}"
        )))?;
        Ok(Pulled {
            id: found.id,
            bytes,
        })
    }
}

/// Reads the progress to its end and returns the downloaded bytes of layers. Dropping the future aborts the pull.
async fn follow(mut reply: Reply, patience: Duration) -> Result<u64, String> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Line {
        error: String,
        /// Progress, where newer engines report it.
        #[serde(rename = "errorDetail")]
        detail: Detail,
        /// The layer.
        id: String,
        status: String,
        #[serde(rename = "progressDetail")]
        progress: Progress,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Progress {
        total: u64,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Detail {
        message: String,
    }
    let mut rest = Vec::new();
    let mut layers: HashMap<String, u64> = HashMap::new();
    loop {
        let piece = timeout(patience, reply.next()).await.map_err(|_| {
            format!(
                "the registry sent no data for {patience:?}; to wait longer, increase \
                 images.progress_timeout or --image-pull-progress-deadline"
            )
        })?;
        let Some(piece) = piece else {
            return Ok(layers.values().sum());
        };
        rest.extend_from_slice(&piece.map_err(|error| chain(&error))?);
        if rest.len() > LONGEST {
            return Err("cannot parse the engine's pull progress".to_owned());
        }
        let mut lines = serde_json::Deserializer::from_slice(&rest).into_iter::<Line>();
        for line in lines.by_ref().map_while(std::result::Result::ok) {
            let problem = [line.error, line.detail.message]
                .into_iter()
                .find(|words| !words.is_empty());
            if let Some(problem) = problem {
                return Err(problem);
            }
            if line.status == "Downloading" && layers.len() < MOST_LAYERS {
                layers.insert(line.id, line.progress.total);
            }
        }
        let read = lines.byte_offset();
        rest.drain(..read);
    }
}

/// Splits a name for the engine's pull call. Without a tag the engine would pull all tags.
pub(crate) fn parted(image: &str) -> Result<(&str, &str)> {
    if image.is_empty() {
        return Err(Error::invalid("image.image", "is empty; specify an image").into());
    }
    if let Some((repository, digest)) = image.split_once('@') {
        // With name, tag and digest, the digest suffices.
        return Ok((without_tag(repository).0, digest));
    }
    let (repository, tag) = without_tag(image);
    Ok((repository, tag.unwrap_or("latest")))
}

fn without_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        // A colon before a slash separates a port.
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parted_as_the_engine_wants_them() {
        for (image, repository, tag) in [
            ("busybox", "busybox", "latest"),
            ("a.b:5000/c", "a.b:5000/c", "latest"),
            ("a.b:5000/c:1", "a.b:5000/c", "1"),
            ("c@sha256:1", "c", "sha256:1"),
            ("a.b:5000/c:1@sha256:1", "a.b:5000/c", "sha256:1"),
        ] {
            assert_eq!(parted(image).unwrap(), (repository, tag), "{image}");
        }
        assert!(parted("").is_err());
    }
}
