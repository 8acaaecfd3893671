//! `StartContainer`: starts a created container and follows its log.

use orlop_cri_api::v1::{StartContainerRequest, StartContainerResponse};
use orlop_cri_server::timeline::{Early, Origin, Trace};

use crate::docker::DockerError;
use crate::docker::types::ContainerConfig;
use crate::error::{Error, Result};
use crate::limits::{Extra, cgroup_of};
use crate::log::{From, Source};
use crate::remembered::Made;
use crate::shim::Shim;
use crate::{find, labels, names};

pub(crate) async fn call(
    shim: &Shim,
    request: StartContainerRequest,
) -> Result<StartContainerResponse> {
    let mut early = Early::begin();
    let looking = startable(shim, &request.container_id);
    let (id, made) = early.step("container", looking).await?;
    let trace = shim.trace_of(&made.sandbox, made.pod.as_ref(), "");
    let call = trace.begin_after(early, "StartContainer", &made.name, Origin::current());
    let started = start(shim, &id, made, &trace).await;
    call.end(&started);
    started?;
    Ok(StartContainerResponse {})
}

async fn start(shim: &Shim, id: &str, made: Made, trace: &Trace) -> Result<()> {
    let name = &made.name;
    // The start event then finds the log already taken care of.
    let expected = made.log.as_ref().map(|log| shim.logs.expect(&log.id));
    let starting = trace.step("start", name, shim.docker.start_container(id));
    let started = starting.await;
    // Also after a failed start, so that clients find a log.
    if let Some(log) = made.log {
        let following = shim.logs.follow(log, From::File);
        if let Err(error) = trace.step("log", name, following).await {
            tracing::warn!(container = id, error = %crate::error::chain(&*error), "cannot create the container log");
        }
    }
    drop(expected);
    started.map_err(|error| start_failed(id, error))?;
    if let Some(extra) = made.extra {
        trace.step("limits", name, apply(shim, id, extra)).await?;
    }
    Ok(())
}

/// Checks that a container has never run: the engine would restart one that has ended.
async fn startable(shim: &Shim, id: &str) -> Result<(String, Made)> {
    if let Some(made) = shim.remembered.take_made(id) {
        return Ok((id.to_owned(), made));
    }
    let found = find::container(&shim.docker, id).await?;
    if found.state.status != "created" {
        let problem = format!(
            "container {} was already started; its state is {}",
            found.id, found.state.status
        );
        return Err(Error::Precondition(problem).into());
    }
    let made = made(&found.id, &found.name, &found.config);
    Ok((found.id, made))
}

/// Extracts the facts for the start from a container's configuration.
pub(crate) fn made(id: &str, name: &str, config: &ContainerConfig) -> Made {
    let label = |key| labels::own(&config.labels, key);
    let extra = Extra::of_labels(&config.labels);
    Made {
        sandbox: label(labels::SANDBOX_ID).cloned().unwrap_or_default(),
        pod: names::sandbox_of(name),
        name: names::container_of(name).map_or_else(String::new, |it| it.name),
        log: label(labels::LOG_PATH).map(|path| Source {
            id: id.to_owned(),
            path: path.into(),
            terminal: config.tty,
        }),
        extra: (!extra.is_empty()).then_some(extra),
    }
}

/// Applies the limits that the engine does not support. On failure the container is stopped.
async fn apply(shim: &Shim, id: &str, extra: Extra) -> Result<()> {
    let found = find::container(&shim.docker, id).await?;
    let Some(hierarchies) = shim.hierarchies.clone() else {
        return Ok(());
    };
    let pid = found.state.pid;
    let own = found.id;
    let applied = orlop_pool::blocking(move || match cgroup_of(&hierarchies, pid, &own) {
        Some(cgroup) => extra.apply(&cgroup),
        // The container has already ended.
        None => Ok(()),
    });
    let applied = match applied.await {
        Ok(applied) => applied,
        Err(_) => Err(Error::Internal(
            "a task panicked while setting the limits of a container".to_owned(),
        )
        .into()),
    };
    if let Err(error) = applied {
        let _ = shim
            .docker
            .stop_container(id, std::time::Duration::ZERO)
            .await;
        return Err(error);
    }
    Ok(())
}

/// Shortens a start error: runtimes put the cause behind a list of steps.
fn start_failed(id: &str, error: DockerError) -> Error {
    let doing = format!("starting container {id}");
    let error = match error {
        DockerError::Refused { status, message } => DockerError::Refused {
            status: if is_about_the_program(&message) {
                400
            } else {
                status
            },
            message,
        },
        other => other,
    };
    Error::engine(doing)(error)
}

fn is_about_the_program(message: &str) -> bool {
    [
        "executable file not found",
        "no such file or directory: unknown",
        "exec format error",
        "unable to find user",
    ]
    .iter()
    .any(|sign| message.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_the_requests_fault() {
        let refused = |message: &str| {
            let error = DockerError::Refused {
                status: 500,
                message: message.into(),
            };
            orlop_cri_server::fault::status(&start_failed("a", error)).code()
        };
        let missing = r#"exec: "nope": executable file not found in $PATH: unknown"#;
        assert_eq!(refused(missing), tonic::Code::InvalidArgument);
        assert_eq!(refused("disk quota exceeded"), tonic::Code::Unknown);
    }
}
