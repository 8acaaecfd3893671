//! Translation of a CRI container configuration into the engine's.

use std::path::Path;

use orlop_cgroup::Driver;
use orlop_cri_api::v1::{
    ContainerConfig as CriConfig, KeyValue, LinuxContainerConfig, LinuxContainerResources,
    LinuxContainerSecurityContext, PodSandboxConfig,
};

use super::mounts::Abilities;
use super::{devices, mounts, namespaces, sandbox, seccomp, security};
use crate::config::Containers;
use crate::docker::ApiVersion;
use crate::docker::types::{
    ContainerConfig, CreateBody, Healthcheck, HostConfig, Info, RestartPolicy, Ulimit,
};
use crate::error::{Error, Result};
use crate::limits::{self, Extra};
use crate::{labels, stop_signal, view};

/// Input of [`container`] that is not in the request.
pub(crate) struct Around<'a> {
    pub(crate) config: &'a Containers,
    pub(crate) info: &'a Info,
    pub(crate) api: ApiVersion,
    pub(crate) driver: Driver,
    pub(crate) cgroup_v2: bool,
    pub(crate) oom_floor: Option<i64>,
    /// The container's sandbox.
    pub(crate) sandbox: &'a str,
    /// The engine's runtime for the container.
    pub(crate) runtime: &'a str,
}

/// Translates a container configuration for the engine. Reads files and creates directories.
pub(crate) fn container(
    config: &CriConfig,
    pod: &PodSandboxConfig,
    around: &Around<'_>,
) -> Result<CreateBody> {
    let nothing = LinuxContainerConfig::default();
    let linux = config.linux.as_ref().unwrap_or(&nothing);
    let no_limits = LinuxContainerResources::default();
    let resources = linux.resources.as_ref().unwrap_or(&no_limits);
    let no_security = LinuxContainerSecurityContext::default();
    let secured = linux.security_context.as_ref().unwrap_or(&no_security);
    let sandbox_id = around.sandbox;
    let spaces = namespaces::of_container(secured.namespace_options.as_ref(), sandbox_id)?;
    let image = config.image.as_ref().map_or("", |image| &image.image);
    if image.is_empty() {
        return Err(Error::invalid("config.image.image", "is empty; specify an image").into());
    }

    let mut all_labels = labels::joined(&config.labels, &config.annotations);
    all_labels.insert(labels::KIND.into(), labels::CONTAINER.into());
    all_labels.insert(labels::LOG_PATH.into(), log_path(config, pod));
    all_labels.insert(labels::SANDBOX_ID.into(), sandbox_id.to_owned());
    let named = config.image.as_ref();
    let named = named.map_or("", |image| &image.user_specified_image);
    if !named.is_empty() && named != image {
        all_labels.insert(labels::IMAGE_NAME.into(), named.to_owned());
    }
    let extra = Extra::of(resources, around.cgroup_v2)?;
    if !extra.is_empty()
        && let Ok(text) = serde_json::to_string(&extra)
    {
        all_labels.insert(labels::EXTRA_LIMITS.into(), text);
    }

    let abilities = Abilities {
        api: around.api,
        recursive_read_only: view::recursive_read_only(around.info, around.runtime, around.api),
    };
    let mounts = mounts::mounts(config, abilities)?;
    let parent = pod.linux.as_ref().map_or("", |linux| &linux.cgroup_parent);
    let mut host_config = HostConfig {
        mounts: mounts.mounts,
        binds: mounts.binds,
        network_mode: spaces.network,
        ipc_mode: spaces.ipc,
        pid_mode: spaces.pid,
        uts_mode: spaces.uts,
        restart_policy: RestartPolicy { name: "no".into() },
        runtime: around.runtime.to_owned(),
        cgroup_parent: sandbox::cgroup_parent(parent, around.driver),
        resources: limits::of(resources),
        oom_score_adj: limits::oom_score_adj(resources.oom_score_adj, around.oom_floor)?,
        devices: devices::mappings(config)?,
        device_requests: devices::requests(config),
        ulimits: ulimits(around.config),
        pids_limit: around.config.pids_limit,
        ..HostConfig::default()
    };
    let user = security::apply(secured, &mut host_config, around.info)?;
    security::hide(secured, &mut host_config);
    let seccomp = seccomp::option(secured, around.config.seccomp_when_unset)?;
    host_config.security_opt.extend(seccomp);

    Ok(CreateBody {
        config: ContainerConfig {
            user,
            image: image.to_owned(),
            entrypoint: (!config.command.is_empty()).then(|| config.command.clone()),
            cmd: (!config.args.is_empty()).then(|| config.args.clone()),
            env: environment(&config.envs)?,
            working_dir: config.working_dir.clone(),
            labels: all_labels,
            open_stdin: config.stdin,
            stdin_once: config.stdin_once,
            tty: config.tty,
            stop_signal: stop_signal::named(config.stop_signal()),
            // The kubelet runs probes itself.
            healthcheck: Some(Healthcheck {
                test: vec!["NONE".into()],
            }),
            ..ContainerConfig::default()
        },
        host_config,
    })
}

/// Returns the path of the container's log; empty if it has none.
fn log_path(config: &CriConfig, pod: &PodSandboxConfig) -> String {
    if pod.log_directory.is_empty() || config.log_path.is_empty() {
        return String::new();
    }
    Path::new(&pod.log_directory)
        .join(&config.log_path)
        .display()
        .to_string()
}

fn environment(variables: &[KeyValue]) -> Result<Vec<String>> {
    let mut environment = Vec::with_capacity(variables.len());
    for (index, variable) in variables.iter().enumerate() {
        let value = std::str::from_utf8(&variable.value).map_err(|_| {
            let problem = "is not valid UTF-8, which the Docker Engine's API requires";
            Error::invalid(format!("config.envs[{index}].value"), problem)
        })?;
        environment.push(format!("{}={value}", variable.key));
    }
    Ok(environment)
}

fn ulimits(config: &Containers) -> Vec<Ulimit> {
    config
        .ulimits
        .iter()
        .map(|(name, soft, hard)| Ulimit {
            name: name.clone(),
            soft: *soft,
            hard: *hard,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_kept_only_where_it_was_said_where() {
        let pod = |directory: &str| PodSandboxConfig {
            log_directory: directory.into(),
            ..Default::default()
        };
        let config = CriConfig {
            log_path: "app/0.log".into(),
            ..Default::default()
        };
        assert_eq!(
            log_path(&config, &pod("/var/log/pods/x")),
            "/var/log/pods/x/app/0.log"
        );
        assert_eq!(log_path(&config, &pod("")), "");
        assert_eq!(log_path(&CriConfig::default(), &pod("/x")), "");
    }

    #[test]
    fn variables_must_be_text() {
        let variable = |value: &[u8]| KeyValue {
            key: "K".into(),
            value: value.to_vec(),
        };
        assert_eq!(environment(&[variable(b"a=b")]).unwrap(), ["K=a=b"]);
        let error = environment(&[variable(b"\xff")]).unwrap_err();
        assert!(
            error.to_string().starts_with("config.envs[0].value"),
            "{error}"
        );
    }
}
