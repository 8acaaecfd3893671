//! Makes sure that an image is on the node, or reports why not (the kubelet's image manager).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::client::{ClientError, ImageClient, PullRequest};
use orlop_cri_api::v1;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::backoff::{Backoff, image_key};
use orlop_kubelet_rules::cri_config::ImageUser;
use orlop_kubelet_rules::image::{Access, ImageError, Presence, classify_pull_error, plan_image};
use orlop_kubelet_rules::pod::{Container, Pod, PullPolicy};
use orlop_kubelet_rules::waiting::WaitingReason;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use super::credential::Credential;
use super::limit::RateLimit;
use super::{Keyring, Providers, PullRecords};
use crate::clock::now;
use crate::event::Severity;
use crate::metrics::Metrics;
use crate::options::ImageOptions;
use crate::pod_input::Objects;

/// An image that is on the node.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageRef {
    /// The runtime's id of the image.
    pub(crate) id: String,
    /// The user that the image specifies.
    pub(crate) user: ImageUser,
}

/// Why a container cannot get its image.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// The reason that the waiting container shows.
    pub(crate) reason: WaitingReason,
    /// The message that explains it.
    pub(crate) message: String,
    /// When to retry, if known.
    pub(crate) retry: Option<Timestamp>,
}

/// An image request, with the pod that makes it.
pub(crate) struct Wanted<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) objects: &'a Objects,
    pub(crate) sandbox: &'a v1::PodSandboxConfig,
    pub(crate) runtime_handler: &'a str,
}

/// Pulls images within the limits of the node.
pub(crate) struct Images {
    client: ImageClient,
    options: ImageOptions,
    root_dir: std::path::PathBuf,
    providers: Providers,
    records: Arc<PullRecords>,
    rate: RateLimit,
    slots: Option<Semaphore>,
    backoff: Mutex<Backoff>,
    /// Why the last pull failed, by back-off key, for pods that wait for the next attempt.
    failures: Mutex<BTreeMap<String, (WaitingReason, String)>>,
}

type Tell<'a> = &'a (dyn Fn(Severity, &'static str, String) + Send + Sync);

impl Images {
    pub(crate) fn new(
        client: ImageClient,
        options: ImageOptions,
        root_dir: std::path::PathBuf,
        providers: Providers,
        records: Arc<PullRecords>,
    ) -> Self {
        let at_once = if options.serialize_pulls {
            Some(1)
        } else {
            options.max_parallel_pulls
        };
        Self {
            client,
            rate: RateLimit::new(options.pull_qps, options.pull_burst),
            slots: at_once.map(|n| Semaphore::new(n.clamp(1, 1024))),
            options,
            root_dir,
            providers,
            records,
            backoff: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Makes sure that a container's image is on the node.
    pub(crate) async fn ensure(
        &self,
        wanted: &Wanted<'_>,
        metrics: &Metrics,
        tell: Tell<'_>,
    ) -> Result<ImageRef, Refusal> {
        let image = &wanted.container.image;
        if let Err(error) = orlop_kubelet_rules::image::with_default_tag(image) {
            return Err(self.refusal(wanted, error, tell));
        }
        let status = self.status(wanted, image).await;
        let present = status.map_err(|error| Refusal {
            reason: WaitingReason::ImageInspectError,
            message: format!("Failed to inspect image {image:?}: {error}"),
            retry: None,
        })?;
        let policy = policy(wanted);
        let on_node = match &present {
            // The image is pulled again, to verify that the pod may use it.
            Some(image) if policy != PullPolicy::Always => {
                let may = self.may_use(wanted, &image.id, metrics).await;
                may.then_some(image.id.as_str())
            }
            _ => None,
        };
        let plan = plan_image(
            wanted.pod,
            wanted.container,
            on_node,
            &self.backoff(),
            now(),
        );
        metrics.ensured_image(
            policy,
            present.is_some(),
            matches!(plan, Ok(Presence::Pull(_))),
        );
        let name = match plan {
            Ok(Presence::Use(_)) => {
                let found = present.map(ImageRef::from).unwrap_or_default();
                tell(
                    Severity::Normal,
                    "Pulled",
                    format!(
                        "Container image {image:?} already present on machine and can be accessed \
                         by the pod"
                    ),
                );
                return Ok(found);
            }
            Ok(Presence::Pull(name)) => name,
            Err(error) => return Err(self.refusal(wanted, error, tell)),
        };
        self.pull(wanted, &name, present.is_none(), metrics, tell)
            .await
    }

    async fn pull(
        &self,
        wanted: &Wanted<'_>,
        name: &str,
        only_if_absent: bool,
        metrics: &Metrics,
        tell: Tell<'_>,
    ) -> Result<ImageRef, Refusal> {
        let waited = Instant::now();
        self.rate.turn().await;
        let _slot = match &self.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        // Another pod may have pulled it while this one waited in the queue.
        if only_if_absent
            && policy(wanted) != PullPolicy::Always
            && let Ok(Some(found)) = self.status(wanted, name).await
            && self.may_use(wanted, &found.id, metrics).await
        {
            let message = format!("Container image {name:?} already present on machine");
            tell(Severity::Normal, "Pulled", message);
            return Ok(ImageRef::from(found));
        }
        tell(
            Severity::Normal,
            "Pulling",
            format!("Pulling image {name:?}"),
        );
        let image = wanted.container.image.clone();
        let begun = self.note(move |records| records.begin(&image)).await;
        if let Some(Err(error)) = begun {
            let message =
                format!("Failed to record image pull intent for container image {name:?}: {error}");
            tell(Severity::Warning, "Failed", message.clone());
            return Err(Refusal {
                reason: WaitingReason::ErrImagePull,
                message,
                retry: None,
            });
        }
        let begun = Instant::now();
        let key = image_key(wanted.pod, name);
        let pulled = self.pull_with_credentials(wanted, name).await;
        if let Some((under_way, done)) = self.note(PullRecords::count).await {
            metrics.pull_records(under_way, done);
        }
        match pulled {
            Ok(id) => {
                self.backoff().reset(&key);
                self.failures().remove(&key);
                let found = self.status(wanted, &id).await.ok().flatten();
                let size = found.as_ref().map_or(0, |image| image.size);
                metrics.pulled_image(begun.elapsed(), size);
                tell(
                    Severity::Normal,
                    "Pulled",
                    format!(
                        "Successfully pulled image {name:?} in {:.3?} ({:.3?} including waiting). \
                         Image size: {size} bytes.",
                        begun.elapsed(),
                        waited.elapsed()
                    ),
                );
                let user = found.map(|image| ImageRef::from(image).user);
                Ok(ImageRef {
                    id,
                    user: user.unwrap_or_default(),
                })
            }
            Err(error) => {
                let now = now();
                let said = error
                    .runtime_message()
                    .map_or_else(|| error.to_string(), str::to_owned);
                let reason = classify_pull_error(&said).reason();
                self.backoff().next(&key, now, now);
                let mut failures = self.failures();
                if failures.len() >= 16 * 1024 {
                    failures.clear();
                }
                failures.insert(key, (reason, said.clone()));
                drop(failures);
                tell(
                    Severity::Warning,
                    "Failed",
                    format!("Failed to pull image {name:?}: {said}"),
                );
                Err(Refusal {
                    reason,
                    message: format!("failed to pull image {name:?}: {said}"),
                    retry: Some(now.after(Duration::from_secs(2))),
                })
            }
        }
    }

    /// Pulls without credentials if there are none, else with each until one succeeds; records
    /// which one did.
    async fn pull_with_credentials(
        &self,
        wanted: &Wanted<'_>,
        name: &str,
    ) -> Result<String, ClientError> {
        let mut tries: Vec<_> = self.of_pod(wanted, name);
        tries.extend(self.of_node(name).await);
        let mut tries: Vec<_> = tries.into_iter().map(Some).collect();
        tries.dedup();
        if tries.is_empty() {
            tries.push(None);
        }
        let mut last = None;
        for credential in tries {
            let request = PullRequest {
                image: spec(name, wanted),
                auth: credential.as_ref().map(|it| it.auth.clone()),
                pod: Some(wanted.sandbox.clone()),
            };
            let pull = self.client.pull_image(request);
            let done =
                match self.options.pull_deadline {
                    None => pull.await,
                    Some(limit) => tokio::time::timeout(limit, pull).await.unwrap_or(Err(
                        ClientError::Deadline {
                            rpc: orlop_cri_api::Rpc::PullImage,
                            after: limit,
                        },
                    )),
                };
            match done {
                Ok(id) => {
                    let secret = credential.and_then(|it| it.secret);
                    let access = secret.map_or_else(Access::of_node, Access::of_secret);
                    let (image, id) = (wanted.container.image.clone(), id);
                    let noted = id.clone();
                    self.note(move |records| records.done(&image, &noted, access))
                        .await;
                    return Ok(id);
                }
                Err(error) => last = Some(error),
            }
        }
        let image = wanted.container.image.clone();
        self.note(move |records| records.failed(&image)).await;
        Err(last.unwrap_or(ClientError::Incomplete {
            rpc: orlop_cri_api::Rpc::PullImage,
            field: "image_ref",
        }))
    }

    /// Returns the credentials of the pod's own pull secrets for an image.
    #[allow(clippy::unused_self, reason = "reads beside `of_node`")]
    fn of_pod(&self, wanted: &Wanted<'_>, name: &str) -> Vec<Credential> {
        let namespace = &wanted.pod.metadata.namespace;
        let mut secrets = Keyring::default();
        for reference in &wanted.pod.spec.image_pull_secrets {
            let secret = &reference.name;
            match wanted.objects.secret(namespace, secret) {
                Some(found) if secrets.add_secret(namespace, secret, found) => {}
                _ => tracing::warn!(
                    secret,
                    namespace,
                    "a pull secret is missing or has no credentials"
                ),
            }
        }
        secrets.lookup(name)
    }

    /// Returns the credentials of the node and its plugins for an image.
    async fn of_node(&self, name: &str) -> Vec<Credential> {
        let mut dirs = self.options.docker_config_dirs.clone();
        dirs.push(self.root_dir.clone());
        let keyring = orlop_pool::blocking(move || Keyring::of_node(&dirs)).await;
        let mut found = keyring.unwrap_or_default().lookup(name);
        found.extend(self.providers.lookup(name).await);
        found
    }

    /// Whether the pod may use an image that is present, according to the pull records.
    async fn may_use(&self, wanted: &Wanted<'_>, id: &str, metrics: &Metrics) -> bool {
        let image = wanted.container.image.clone();
        let name =
            orlop_kubelet_rules::image::with_default_tag(&image).unwrap_or_else(|_| image.clone());
        let secrets = self.of_pod(wanted, &name);
        let secrets: Vec<_> = secrets.into_iter().filter_map(|it| it.secret).collect();
        let id = id.to_owned();
        let asked = self
            .note(move |records| records.may_use(&image, &id, || secrets))
            .await;
        let (may, why) = asked.unwrap_or((false, "error"));
        metrics.checked_pull(why);
        may
    }

    /// Runs an operation on the pull records on a blocking thread.
    async fn note<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PullRecords) -> T + Send + 'static,
    ) -> Option<T> {
        let records = Arc::clone(&self.records);
        orlop_pool::blocking(move || work(&records)).await.ok()
    }

    fn refusal(&self, wanted: &Wanted<'_>, error: ImageError, tell: Tell<'_>) -> Refusal {
        let reason = error.reason();
        let (message, retry) = match &error {
            ImageError::ImagePullBackOff { image, wait } => {
                let key = image_key(wanted.pod, image);
                let before = self.failures().get(&key).cloned();
                let before = before.map_or_else(String::new, |(r, text)| format!(": {r}: {text}"));
                let message = format!("Back-off pulling image {image:?}{before}");
                tell(
                    Severity::Normal,
                    "BackOff",
                    format!("Back-off pulling image {image:?}"),
                );
                (message, Some(now().after(*wait)))
            }
            ImageError::InvalidImageName { image, why } => {
                let message = format!("Failed to apply default image tag {image:?}: {why}");
                tell(Severity::Warning, "InspectFailed", message.clone());
                (message, None)
            }
            ImageError::ErrImageNeverPull { image } => {
                let message =
                    format!("Container image {image:?} is not present with pull policy of Never");
                tell(Severity::Warning, "ErrImageNeverPull", message.clone());
                (message, None)
            }
        };
        Refusal {
            reason,
            message,
            retry,
        }
    }

    async fn status(
        &self,
        wanted: &Wanted<'_>,
        name: &str,
    ) -> Result<Option<v1::Image>, ClientError> {
        let name =
            orlop_kubelet_rules::image::with_default_tag(name).unwrap_or_else(|_| name.to_owned());
        let answer = self.client.image_status(spec(&name, wanted), false).await?;
        Ok(answer.image)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock()
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, (WaitingReason, String)>> {
        self.failures.lock()
    }
}

impl From<v1::Image> for ImageRef {
    fn from(image: v1::Image) -> Self {
        Self {
            id: image.id,
            user: ImageUser {
                uid: image.uid.map(|uid| uid.value),
                name: image.username,
            },
        }
    }
}

fn policy(wanted: &Wanted<'_>) -> PullPolicy {
    let named = wanted.container.image_pull_policy;
    named.unwrap_or_else(|| {
        let image = &wanted.container.image;
        let name =
            orlop_kubelet_rules::image::with_default_tag(image).unwrap_or_else(|_| image.clone());
        orlop_kubelet_rules::image::default_policy(&name)
    })
}

fn spec(name: &str, wanted: &Wanted<'_>) -> v1::ImageSpec {
    v1::ImageSpec {
        image: name.to_owned(),
        runtime_handler: wanted.runtime_handler.to_owned(),
        annotations: wanted
            .pod
            .metadata
            .annotations
            .clone()
            .into_iter()
            .collect(),
        ..v1::ImageSpec::default()
    }
}
