//! Starts a container: the kubelet's `startContainer`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1;
use orlop_fs::LogPlace;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::backoff::{container_key, container_start};
use orlop_kubelet_rules::cri_config::{
    ContainerInput, EnvFiles, check_non_root, container_config, env_files, environment,
};
use orlop_kubelet_rules::log_path::{container_log, next_restart_count};
use orlop_kubelet_rules::pod::Container;
use orlop_kubelet_rules::status::{ContainerState, ContainerStatus};
use orlop_kubelet_rules::waiting::WaitingReason;

use super::kill_containers::kill_all;
use super::life::Life;
use crate::clock::now;
use crate::event::Severity;
use crate::hooks::{HookSite, run_hook};
use crate::image_manager::{ImageRef, Wanted};
use crate::node_paths::touching;
use crate::volumes::{
    MountInput, Place, container_mounts, parts_of_node, paths_of_node, read_env_files,
    termination_log,
};

/// A container has the user namespace of its sandbox.
fn user_namespace(sandbox: &v1::PodSandboxConfig) -> Option<v1::UserNamespace> {
    let security = sandbox.linux.as_ref()?.security_context.as_ref()?;
    security.namespace_options.as_ref()?.userns_options.clone()
}

/// The kind of a container to start.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Init,
    Regular,
    Ephemeral {
        /// The container whose processes it can see.
        target: Option<String>,
    },
}

impl Kind {
    fn word(&self) -> &'static str {
        match self {
            Self::Init => "init_container",
            Self::Regular => "container",
            Self::Ephemeral { .. } => "ephemeral_container",
        }
    }
}

/// Why a container was not started.
pub(super) struct StartFailure {
    pub(super) reason: WaitingReason,
    pub(super) message: String,
    /// When to retry; after the default delay if `None`.
    pub(super) retry: Option<Timestamp>,
}

impl StartFailure {
    fn new(reason: WaitingReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry: None,
        }
    }
}

impl Life {
    /// Starts a container: waits for its back-off, pulls its image, creates and starts it, and runs
    /// its hook.
    pub(super) async fn start_container(
        &mut self,
        sandbox: &str,
        sandbox_config: &v1::PodSandboxConfig,
        container: &Container,
        kind: Kind,
    ) -> Result<(), StartFailure> {
        self.wait_for_backoff(container)?;
        let started = self
            .start_now(sandbox, sandbox_config, container, &kind)
            .await;
        let code = started.as_ref().err().map(|failure| failure.reason.word());
        self.ctx.metrics.started_container(kind.word(), code);
        if started.is_ok() {
            self.told.waiting.remove(&container.name);
        }
        started
    }

    fn wait_for_backoff(&mut self, container: &Container) -> Result<(), StartFailure> {
        let blocked = {
            let mut backoff = self.ctx.backoff();
            container_start(
                &mut backoff,
                &self.wished.pod,
                container,
                &self.seen.observation.status,
                now(),
            )
        };
        let Err(until) = blocked else {
            return self.wait_after_failure(container);
        };
        let meta = self.wished.pod.metadata.clone();
        let wait = self
            .seen
            .observation
            .status
            .newest_exited(&container.name)
            .and_then(|c| c.finished_at)
            .map_or(Duration::ZERO, |finished| until.since(finished));
        let (name, namespace, uid) = (&meta.name, &meta.namespace, &meta.uid);
        let of = &container.name;
        let event =
            format!("Back-off restarting failed container {of} in pod {name}_{namespace}({uid})");
        self.say(Some(of), Severity::Warning, "BackOff", event);
        Err(StartFailure {
            reason: WaitingReason::CrashLoopBackOff,
            message: format!(
                "back-off {wait:?} restarting failed container={of} pod={name}_{namespace}({uid})"
            ),
            retry: Some(until),
        })
    }

    /// Delays the retry of a container that could not be created or started, because it has no exit
    /// time.
    fn wait_after_failure(&self, container: &Container) -> Result<(), StartFailure> {
        let key = self.failure_key(container);
        let until = self.ctx.backoff().blocked_since_failure(&key, now());
        let (Some(until), Some(waiting)) = (until, self.told.waiting.get(&container.name)) else {
            return Ok(());
        };
        if !matches!(
            waiting.reason,
            WaitingReason::CreateContainerError | WaitingReason::RunContainerError
        ) {
            return Ok(());
        }
        Err(StartFailure {
            reason: waiting.reason,
            message: waiting.message.clone(),
            retry: Some(until),
        })
    }

    /// Records that a container could not be created or started.
    fn failed_to(
        &self,
        reason: WaitingReason,
        container: &Container,
        message: String,
    ) -> StartFailure {
        let key = self.failure_key(container);
        let mut backoff = self.ctx.backoff();
        backoff.next(&key, now(), now());
        StartFailure {
            reason,
            message,
            retry: backoff.blocked_since_failure(&key, now()),
        }
    }

    fn failure_key(&self, container: &Container) -> String {
        let wish = self.wished.generation;
        format!(
            "start/{}/{wish}",
            container_key(&self.wished.pod, container)
        )
    }

    /// Removes instances that were created but never started; the next one replaces them.
    async fn remove_unstarted(&self, which: impl Fn(&ContainerStatus) -> bool) {
        let instances = self.seen.observation.status.containers().iter();
        let unstarted = instances.filter(|c| which(c) && c.state == ContainerState::Created);
        for instance in unstarted {
            if let Err(error) = self.ctx.runtime.remove_container(&instance.id).await {
                tracing::debug!(id = instance.id, %error, "cannot remove a container that never started");
            }
        }
    }

    /// Removes all unstarted containers of a lost sandbox; they do not count as restarts.
    pub(super) async fn remove_unstarted_of_all(&mut self) {
        self.remove_unstarted(|_| true).await;
        let seen = Arc::make_mut(&mut self.seen.observation);
        seen.status.forget_unstarted();
    }

    async fn start_now(
        &mut self,
        sandbox: &str,
        sandbox_config: &v1::PodSandboxConfig,
        container: &Container,
        kind: &Kind,
    ) -> Result<(), StartFailure> {
        let name = container.name.as_str();
        let image = self.ensure_image(sandbox_config, container).await?;
        let config = self
            .container_config(sandbox_config, container, kind, image)
            .await;
        let config = config.map_err(|message| {
            let failure = StartFailure::new(WaitingReason::CreateContainerConfigError, message);
            let message = format!("Error: {}", failure.message);
            self.say(Some(name), Severity::Warning, "Failed", message);
            failure
        })?;
        self.remove_unstarted(|c| c.name == container.name).await;
        let runtime = self.ctx.runtime.clone();
        let volumes = config.mounts.iter().filter(|it| it.image.is_some()).count();
        let made = runtime
            .create_container(sandbox, config, sandbox_config.clone())
            .await;
        if made.is_ok() {
            self.ctx.metrics.mounted_image_volumes(volumes, false);
        }
        let id = made.map_err(|error| {
            let message = error
                .runtime_message()
                .map_or_else(|| error.to_string(), str::to_owned);
            if message.contains("ImageVolumeMountFailed") {
                self.ctx.metrics.mounted_image_volumes(volumes, true);
            }
            self.say(
                Some(name),
                Severity::Warning,
                "Failed",
                format!("Error: {message}"),
            );
            self.failed_to(WaitingReason::CreateContainerError, container, message)
        })?;
        self.say(
            Some(name),
            Severity::Normal,
            "Created",
            format!("Created container: {name}"),
        );
        self.note_actuated(name).await;
        if let Err(error) = runtime.start_container(&id).await {
            let message = error
                .runtime_message()
                .map_or_else(|| error.to_string(), str::to_owned);
            self.say(
                Some(name),
                Severity::Warning,
                "Failed",
                format!("Error: {message}"),
            );
            self.mailbox.touch();
            return Err(self.failed_to(WaitingReason::RunContainerError, container, message));
        }
        self.say(
            Some(name),
            Severity::Normal,
            "Started",
            format!("Started container {name}"),
        );
        self.link_log(container, &id).await;
        self.after_start(container, &id).await
    }

    /// Runs the postStart hook; a container whose hook fails is killed.
    async fn after_start(&mut self, container: &Container, id: &str) -> Result<(), StartFailure> {
        let Some(hook) = container.lifecycle.post_start.clone() else {
            return Ok(());
        };
        let teller = self.teller();
        let of = container.name.clone();
        let site = HookSite {
            container_id: id,
            container,
            pod_ip: self.pod_ip(),
            tell: &move |severity, reason, message| teller(Some(&of), severity, reason, message),
        };
        // A command of this hook has no timeout; the pod's termination cancels it.
        let ran = run_hook(&self.ctx, &hook, &site, Duration::ZERO).await;
        let Err(why) = ran else {
            return Ok(());
        };
        let name = &container.name;
        tracing::warn!(container = name, why, "a postStart hook failed");
        self.say(
            Some(name),
            Severity::Warning,
            "FailedPostStartHook",
            "PostStartHook failed".to_owned(),
        );
        let message = format!("FailedPostStartHook: container {name} will be killed");
        let victim = self.victim(id, name, None, None, message);
        let tell = self.teller();
        let killed = kill_all(&self.ctx, vec![victim], &[], self.pod_ip(), &tell).await;
        if let Err(error) = killed {
            tracing::warn!(container = name, %error, "cannot kill a container whose postStart hook failed");
        }
        self.mailbox.touch();
        Err(StartFailure::new(
            WaitingReason::PostStartHookError,
            "PostStartHook failed",
        ))
    }

    async fn ensure_image(
        &mut self,
        sandbox_config: &v1::PodSandboxConfig,
        container: &Container,
    ) -> Result<ImageRef, StartFailure> {
        let handler = self.runtime_handler().unwrap_or_default();
        let wanted = Wanted {
            pod: &self.wished.pod,
            container,
            objects: &self.wished.input.objects,
            sandbox: sandbox_config,
            runtime_handler: &handler,
        };
        let teller = self.teller();
        let name = container.name.clone();
        let tell = move |severity, reason, message| teller(Some(&name), severity, reason, message);
        let ensured = self
            .ctx
            .images
            .ensure(&wanted, &self.ctx.metrics, &tell)
            .await;
        ensured.map_err(|refusal| {
            if refusal.reason != WaitingReason::ImagePullBackOff {
                let error = format!("Error: {}", refusal.reason);
                self.say(Some(&container.name), Severity::Warning, "Failed", error);
            }
            StartFailure {
                reason: refusal.reason,
                message: refusal.message,
                retry: refusal.retry,
            }
        })
    }

    async fn container_config(
        &mut self,
        sandbox_config: &v1::PodSandboxConfig,
        container: &Container,
        kind: &Kind,
        image: ImageRef,
    ) -> Result<v1::ContainerConfig, String> {
        check_non_root(&self.wished.pod, container, &image.user).map_err(|e| e.to_string())?;
        let files = self.env_files(container).await?;
        let variables = environment(
            &self.wished.pod,
            container,
            &self.facts(),
            &self.values(),
            &files,
        )?;
        let images = self.volume_images(sandbox_config, container).await;
        let restart_count = self.restart_count(sandbox_config, container).await;
        let mounts = {
            let (dirs, container) = (self.dirs.clone(), container.clone());
            let places = self
                .made
                .places
                .clone()
                .map(|(_, places)| places)
                .unwrap_or_default();
            let variables = variables.clone();
            let hosts = Some(self.dirs.hosts()).filter(|path| path.exists());
            let handler = self.runtime_handler().unwrap_or_default();
            let handler = self.ctx.handler(&handler);
            let recursive_read_only = handler.is_some_and(|it| it.recursive_read_only);
            let touched = parts_of_node(&container, &places);
            let work = move || {
                let log = if container.termination_message_path.is_empty() {
                    None
                } else {
                    Some(termination_log(&dirs, &container.name)?)
                };
                let input = MountInput {
                    dirs: &dirs,
                    places: &places,
                    variables: &variables,
                    images: &images,
                    hosts,
                    termination_log: log,
                    recursive_read_only,
                };
                container_mounts(&container, &input)
            };
            let done = touching(&self.own_places(), touched, work).await;
            done?.map_err(|e| e.to_string())?
        };
        let target_id = match kind {
            Kind::Ephemeral { target } => target.clone(),
            Kind::Init | Kind::Regular => None,
        };
        let input = ContainerInput {
            restart_count,
            image_ref: image.id,
            image_user: image.user,
            given_env: variables,
            mounts,
            target_id,
            memory_capacity: self.ctx.memory,
            hugepage_sizes: self.ctx.hugepage_sizes.clone(),
            runtime_handler: self.runtime_handler().unwrap_or_default(),
            user_namespace: user_namespace(sandbox_config),
        };
        // The variables are already resolved.
        let mut resolved = container.clone();
        resolved.env.clear();
        let mut config = container_config(&self.wished.pod, &resolved, &input);
        self.adapt_to_node(&mut config, container);
        Ok(config)
    }

    /// Reads the files that provide the container's variables.
    async fn env_files(&self, container: &Container) -> Result<EnvFiles, String> {
        let wanted = env_files(container);
        if wanted.is_empty() {
            return Ok(EnvFiles::new());
        }
        let places = self
            .made
            .places
            .clone()
            .map(|(_, it)| it)
            .unwrap_or_default();
        let volumes = wanted.iter().map(|(volume, _)| volume.as_str());
        let touched = paths_of_node(volumes, &places);
        let read = move || read_env_files(&places, wanted);
        touching(&self.own_places(), touched, read).await
    }

    /// Returns the restart count: one more than that of the last known instance or log.
    async fn restart_count(
        &self,
        sandbox_config: &v1::PodSandboxConfig,
        container: &Container,
    ) -> u32 {
        let last = self
            .seen
            .observation
            .status
            .newest(&container.name)
            .map(|c| c.restart_count);
        let first = std::path::Path::new(&sandbox_config.log_directory)
            .join(container_log(&container.name, 0));
        let list = move || -> Vec<String> {
            let names = LogPlace::make(&first).and_then(|place| place.names(|_| true));
            let names = names.unwrap_or_else(|error| {
                tracing::warn!(log = %first.display(), %error, "cannot create a log directory");
                Vec::new()
            });
            names
                .into_iter()
                .filter_map(|name| name.into_string().ok())
                .collect()
        };
        let files = orlop_pool::blocking(list).await.unwrap_or_default();
        next_restart_count(last, files.iter().map(String::as_str))
    }

    /// Pulls the images that the container mounts.
    async fn volume_images(
        &mut self,
        sandbox_config: &v1::PodSandboxConfig,
        container: &Container,
    ) -> BTreeMap<String, Result<v1::ImageSpec, String>> {
        let places = self
            .made
            .places
            .clone()
            .map(|(_, places)| places)
            .unwrap_or_default();
        let mut images = BTreeMap::new();
        for mount in &container.volume_mounts {
            let Some(Place::Image { reference, policy }) = places.get(&mount.name) else {
                continue;
            };
            self.ctx.metrics.asked_for_image_volume();
            let stand_in = Container {
                name: container.name.clone(),
                image: reference.clone(),
                image_pull_policy: *policy,
                ..Container::default()
            };
            let got = match self.ensure_image(sandbox_config, &stand_in).await {
                Ok(image) => Ok(v1::ImageSpec {
                    image: image.id,
                    user_specified_image: reference.clone(),
                    ..v1::ImageSpec::default()
                }),
                Err(failure) => Err(format!(
                    "image {reference:?}: {}: {}",
                    failure.reason, failure.message
                )),
            };
            images.insert(mount.name.clone(), got);
        }
        images
    }

    /// Links the container's log for log collectors.
    async fn link_log(&self, container: &Container, id: &str) {
        let answer = self.ctx.runtime.container_status(id, false).await;
        let Some(status) = answer.ok().and_then(|answer| answer.status) else {
            return;
        };
        self.ctx
            .log_links
            .add(&self.wished.pod, &container.name, id, &status.log_path)
            .await;
    }
}
