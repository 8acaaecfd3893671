//! The pause process of a sandbox: it holds the pod's namespaces, reaps orphaned processes, and exits on a signal.
//!
//! The image is the configured one. If none is configured or it is not available, a one-page image built here is
//! loaded into the engine, so that a node starts without a network.

use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use orlop_image_store::{ForeignImage, ForeignImages};
use orlop_text::hex::encode as hex;
use parking_lot::Mutex;
use serde_json::json;

use crate::docker::types::{CreateBody, Image as EngineImage};
use crate::docker::{DockerError, Reply};
use crate::engine_info::EngineInfo;
use crate::error::{Error, Result, chain};
use crate::pull::Puller;
use crate::{elf, policy};

/// The name of the built-in image. The version increases when its content changes.
pub(crate) const BUILT_IN: &str = "orlop.invalid/pause:1";

/// How long the built-in image replaces one that the policy rejects, before that is checked again.
const STANDS_IN: Duration = Duration::from_mins(1);

/// The image for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: String,
    /// The image that the policy checked, if there is a policy.
    judged: Option<ForeignImage>,
}

impl Image {
    /// Sets this image in a create request, by the id that was checked, in case the name has moved.
    pub(crate) fn sandbox(&self, mut body: CreateBody) -> CreateBody {
        if let Some(judged) = &self.judged {
            body.config.image = judged.id.to_string();
        }
        body
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            judged: None,
        }
    }
}

/// The image of new sandboxes, and the parts needed to find, check and pull it.
pub(crate) struct Pause {
    /// The name of the configured or built-in image.
    wanted: String,
    policies: Option<ForeignImages>,
    puller: Puller,
    info: EngineInfo,
    known: Known,
    alone: tokio::sync::Mutex<()>,
}

impl Pause {
    /// Creates the lookup; `configured` is an image's name.
    pub(crate) fn new(
        configured: Option<&str>,
        policies: Option<ForeignImages>,
        puller: Puller,
        info: EngineInfo,
    ) -> Self {
        Self {
            wanted: configured.unwrap_or(BUILT_IN).to_owned(),
            policies,
            puller,
            info,
            known: Known::default(),
            alone: tokio::sync::Mutex::default(),
        }
    }

    /// Records that the image no longer exists.
    pub(crate) fn is_gone(&self) {
        self.known.forget();
    }

    /// Returns the image for a new sandbox, present in the engine. A configured image is checked against the node's
    /// policy for each sandbox.
    pub(crate) async fn image(&self) -> Result<Image> {
        let wanted = self.wanted.as_str();
        // The image is looked up once. If it disappears, sandbox creation reports that and it is looked up again.
        if let Some(known) = self.known.get()
            && self.may_be_used(&known).await
        {
            return Ok(known);
        }
        let _alone = self.alone.lock().await;
        if let Some(known) = self.known.get()
            && self.may_be_used(&known).await
        {
            return Ok(known);
        }
        let found = self.find_or_get(wanted).await?;
        // The policy may change, and signatures may be added.
        let stands_in = self.policies.is_some() && found.name != wanted;
        let until = stands_in.then(|| Instant::now() + STANDS_IN);
        self.known.found(found.clone(), until);
        Ok(found)
    }

    async fn may_be_used(&self, known: &Image) -> bool {
        let (Some(policies), Some(judged)) = (&self.policies, &known.judged) else {
            return true;
        };
        let admitted = policies.admit(judged.clone(), &known.name, "").await;
        admitted.is_ok()
    }

    async fn find_or_get(&self, wanted: &str) -> Result<Image> {
        match policy::find(self.puller.docker(), self.policies.as_ref(), wanted).await {
            Ok(_) if wanted == BUILT_IN => return Ok(Image::named(wanted)),
            Ok(found) => match self.admitted(wanted, &found).await {
                Ok(image) => return Ok(image),
                // A pull may fetch its signatures.
                Err(error) => tracing::debug!(
                    image = wanted,
                    error = %chain(&*error),
                    "the policy rejects the current pause image",
                ),
            },
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        if wanted != BUILT_IN {
            match self.get(wanted).await {
                Ok(image) => return Ok(image),
                Err(error) if is_refusal(&error) => tracing::warn!(
                    image = wanted,
                    error = %chain(&*error),
                    "the policy rejects the pause image; using the built-in one",
                ),
                Err(error) => tracing::warn!(
                    image = wanted,
                    error = %chain(&*error),
                    "cannot pull or verify the pause image; using the built-in one",
                ),
            }
            if self.puller.docker().image(BUILT_IN).await.is_ok() {
                return Ok(Image::named(BUILT_IN));
            }
        }
        self.load().await?;
        Ok(Image::named(BUILT_IN))
    }

    /// Pulls the configured image.
    async fn get(&self, wanted: &str) -> Result<Image> {
        let Some(policies) = &self.policies else {
            self.puller.pull(wanted, None).await?;
            return Ok(Image::named(wanted));
        };
        let leave = Box::pin(policy::examine(&self.info, policies, wanted, None, "")).await?;
        let pulled =
            policy::fetch(&self.puller, &self.info, policies, (wanted, leave), None).await?;
        let found = self.puller.docker().image(&pulled.id).await;
        let found = found.map_err(Error::engine(format!(
            "inspecting the pulled image {wanted:?}"
        )))?;
        self.admitted(wanted, &found).await
    }

    /// Checks an image against the node's policy.
    async fn admitted(&self, wanted: &str, found: &EngineImage) -> Result<Image> {
        let Some(policies) = &self.policies else {
            return Ok(Image::named(wanted));
        };
        let judged = policy::of_engine(found)?;
        let admitted = policies.admit(judged.clone(), wanted, "").await;
        admitted.map_err(Error::image(format!("using the pause image {wanted:?}")))?;
        Ok(Image {
            name: wanted.to_owned(),
            judged: Some(judged),
        })
    }

    async fn load(&self) -> Result<()> {
        let architecture = self.info.get().await?.architecture.clone();
        let Some((program, goarch)) = elf::program(&architecture) else {
            let problem = format!(
                "orlop has no built-in pause image for the engine's architecture {architecture:?}; \
                 set docker.pause_image, and pull or load that image into the engine"
            );
            return Err(Error::Precondition(problem).into());
        };
        let failed = || Error::engine("loading the built-in pause image into the engine");
        let archive = archive(&program, goarch);
        let reply = self
            .puller
            .docker()
            .load_image(archive)
            .await
            .map_err(failed())?;
        loaded(reply).await.map_err(failed())?;
        // The engine reports a failed load within a successful response, so check for the image.
        self.puller
            .docker()
            .image(BUILT_IN)
            .await
            .map_err(failed())?;
        tracing::info!(image = BUILT_IN, "loaded the built-in pause image");
        Ok(())
    }
}

async fn loaded(mut reply: Reply) -> Result<(), DockerError> {
    while let Some(piece) = reply.next().await {
        piece?;
    }
    Ok(())
}

/// Whether the policy rejected the image, as opposed to a failed check.
fn is_refusal(error: &Error) -> bool {
    let Error::Image { source, .. } = error else {
        return false;
    };
    matches!(source, orlop_image_store::Error::NotAllowed { .. })
}

/// The cached pause image.
#[derive(Debug, Default)]
struct Known(Mutex<Option<Found>>);

#[derive(Debug)]
struct Found {
    image: Image,
    /// When the cache entry expires.
    until: Option<Instant>,
}

impl Known {
    fn get(&self) -> Option<Image> {
        self.get_at(Instant::now())
    }

    fn get_at(&self, now: Instant) -> Option<Image> {
        let held = self.0.lock();
        let known = held.as_ref()?;
        let is_old = known.until.is_some_and(|until| until <= now);
        (!is_old).then(|| known.image.clone())
    }

    /// Caches the image until a time.
    fn found(&self, image: Image, until: Option<Instant>) {
        *self.0.lock() = Some(Found { image, until });
    }

    fn forget(&self) {
        *self.0.lock() = None;
    }
}

/// Builds the image in the format of `docker save`. The bytes are reproducible.
fn archive(program: &[u8], goarch: &str) -> Bytes {
    let layer = tar_of(&[("pause", program, 0o755)]);
    let config = json!({
        "architecture": goarch,
        "os": "linux",
        "config": { "Entrypoint": ["/pause"], "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
        "history": [{ "created_by": "orlop" }],
    })
    .to_string();
    let name = format!("{}.json", sha256(config.as_bytes()));
    let manifest = json!([{ "Config": name, "RepoTags": [BUILT_IN], "Layers": ["layer.tar"] }]);
    let manifest = manifest.to_string();
    tar_of(&[
        (&name, config.as_bytes(), 0o644),
        ("layer.tar", &layer, 0o644),
        ("manifest.json", manifest.as_bytes(), 0o644),
    ])
    .into()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn tar_of(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content, mode) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(*mode);
        header.set_size(content.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        // Writing to memory does not fail.
        let _ = builder.append_data(&mut header, name, *content);
    }
    builder.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_stands_in_is_looked_for_anew_after_a_minute() {
        let (known, now) = (Known::default(), Instant::now());
        let minute = Duration::from_mins(1);
        assert_eq!(known.get_at(now), None);
        known.found(Image::named("a.example/pause:1"), None);
        assert!(known.get_at(now + 100 * minute).is_some());
        known.found(Image::named(BUILT_IN), Some(now + STANDS_IN));
        assert!(known.get_at(now + minute / 2).is_some());
        assert_eq!(known.get_at(now + minute), None);
    }

    #[test]
    fn the_archive_holds_one_small_layer_with_one_program() {
        let (program, goarch) = elf::program("x86_64").unwrap();
        let archive = archive(&program, goarch);
        assert_eq!(archive, super::archive(&program, goarch), "always the same");
        let mut files = tar::Archive::new(&archive[..]);
        let names: Vec<_> = files
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names.len(), 3);
        assert_eq!(names[2], "manifest.json");
        assert!(archive.len() < 16 << 10);
    }
}
