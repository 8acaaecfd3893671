//! Validation of a container request against its pod and this node, before anything is created.

use std::sync::Arc;

use orlop_cri_api::v1::ContainerConfig;
use orlop_image_store::Image;

use crate::blocking;
use crate::config::Config;
use crate::container::image_volumes::{self, VolumeImage};
use crate::container::namespaces;
use crate::error::{Error, Result};
use crate::image::check_whole;
use crate::node::runtimes::Handler;
use crate::node::{Node, selinux_levels};
use crate::record::pod::Pod;
use crate::spec::{self, Labels, PodNamespaces};

/// A validated container request, from which the container is created.
#[derive(Debug)]
pub struct Plan {
    /// Image of the container.
    pub image: Image,
    /// Images that the container mounts as volumes.
    pub volumes: Vec<VolumeImage>,
    /// The parsed request.
    pub asked: Box<spec::Asked>,
    /// Facts about the container's pod.
    pub pod: InPod,
}

/// Facts about a pod that a new container in it depends on.
#[derive(Debug)]
pub struct InPod {
    /// Kept for the whole creation, even if the configuration is reloaded meanwhile.
    config: Arc<Config>,
    handler: Arc<Handler>,
    namespaces: PodNamespaces,
    labels: Option<Labels>,
}

impl Plan {
    /// Validates a request and returns it with the plan. `name` is the image's name for users.
    pub async fn read(
        node: &Arc<Node>,
        pod: &Arc<Pod>,
        config: ContainerConfig,
        (name, image): (&str, Image),
    ) -> Result<(ContainerConfig, Self)> {
        let volumes = image_volumes::asked(node, pod, &config).await?;
        let (node, pod, name) = (Arc::clone(node), Arc::clone(pod), name.to_owned());
        blocking(move || {
            let in_pod = InPod::of(&node, &pod, &config)?;
            if !in_pod.handler.settings.guest_pull() {
                check_whole(&image)?;
            }
            if let Some(artifact) = &image.config.artifact {
                let problem = format!(
                    "{name} is an artifact ({}) and cannot run as a container; mount it as an \
                     image volume",
                    artifact.kind
                );
                return Err(Error::invalid("config.image", problem).into());
            }
            let platform = image.config.platform();
            if platform.is_wasm() && !in_pod.handler.may_run_wasm() {
                let problem = format!(
                    "{name} is for {platform}, which the runtime handler {:?} cannot run; use a \
                     handler with a WebAssembly shim (docs/guides/webassembly.md)",
                    in_pod.handler.name
                );
                return Err(Error::invalid("config.image", problem).into());
            }
            let known = in_pod.known(&node, &pod, &config, (&name, &image));
            let asked = spec::Asked::read(&known).map_err(Error::Spec)?;
            let plan = Self {
                image,
                volumes,
                asked: Box::new(asked),
                pod: in_pod,
            };
            Ok((config, plan))
        })
        .await
    }
}

impl InPod {
    fn of(node: &Node, pod: &Pod, config: &ContainerConfig) -> Result<Self> {
        let linux = config.linux.as_ref();
        let security = linux.and_then(|linux| linux.security_context.as_ref());
        let asked = security.and_then(|security| security.namespace_options.as_ref());
        Ok(Self {
            config: node.config(),
            handler: node.runtimes.of(pod)?,
            namespaces: namespaces::joined(&node.containers, pod, asked)?,
            labels: selinux_levels::of_pod(&node.host, pod)?,
        })
    }

    /// The input from which the specification is built.
    pub fn known<'a>(
        &'a self,
        node: &'a Node,
        pod: &'a Pod,
        config: &'a ContainerConfig,
        (name, image): (&'a str, &'a Image),
    ) -> spec::Known<'a> {
        let settings = &self.handler.settings;
        let digests = settings.guest_pull().then_some(&*image.repo_digests);
        let image = &image.config;
        spec::Known {
            config,
            pod_config: &pod.config,
            namespaces: &self.namespaces,
            labels: self.labels.as_ref(),
            image: spec::ImageFacts {
                name,
                digests: digests.unwrap_or_default(),
                entrypoint: &image.entrypoint,
                cmd: &image.cmd,
                env: &image.env,
                user: &image.user,
                working_dir: &image.working_dir,
                volumes: &image.volumes,
                stop_signal: &image.stop_signal,
                module: image.module.as_deref(),
            },
            handler: spec::HandlerFacts {
                features: &self.handler.features,
                pod_annotations: &settings.pod_annotations,
                container_annotations: &settings.container_annotations,
                shares_sandbox: settings.is_shim(),
                rules: &settings.rules,
                privileged_without_host_devices: settings.privileged_without_host_devices,
            },
            host: &node.host,
            policy: &self.config.containers.policy,
        }
    }
}
