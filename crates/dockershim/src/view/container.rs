//! Conversion of containers to the CRI.

use std::collections::BTreeMap;

use orlop_cri_api::v1::{
    Container as CriContainer, ContainerResources, ContainerState, ContainerStatus, ContainerUser,
    ImageSpec, LinuxContainerUser, Mount, MountPropagation,
};

use super::image::pullable;
use crate::docker::types::{Container, ContainerSummary, Image, MountPoint};
use crate::{clock, labels, limits, names, stop_signal};

/// Converts a listed container; `None` if its name is not ours.
pub(crate) fn container(listed: &ContainerSummary) -> Option<CriContainer> {
    let metadata = listed
        .names
        .iter()
        .find_map(|name| names::container_of(name))?;
    let (own_labels, annotations) = labels::parted(&listed.labels);
    Some(CriContainer {
        id: listed.id.clone(),
        pod_sandbox_id: listed
            .labels
            .get(labels::SANDBOX_ID)
            .cloned()
            .unwrap_or_default(),
        metadata: Some(metadata),
        image: Some(ImageSpec {
            image: labels::own(&listed.labels, labels::IMAGE_NAME)
                .unwrap_or(&listed.image)
                .clone(),
            ..Default::default()
        }),
        image_ref: listed.image_id.clone(),
        state: state(&listed.state).into(),
        created_at: listed.created.saturating_mul(1_000_000_000),
        labels: own_labels,
        annotations,
        image_id: listed.image_id.clone(),
    })
}

/// Converts the engine's name of a state.
fn state(word: &str) -> ContainerState {
    match word {
        "created" => ContainerState::ContainerCreated,
        // A paused container still has its processes.
        "running" | "paused" | "restarting" => ContainerState::ContainerRunning,
        "exited" | "removing" | "dead" => ContainerState::ContainerExited,
        _ => ContainerState::ContainerUnknown,
    }
}

/// Returns the engine's names of a state, for its filter. A container that failed to start is "created" to the engine.
pub(crate) fn matches_state(wanted: ContainerState) -> &'static [&'static str] {
    match wanted {
        ContainerState::ContainerCreated => &["created"],
        ContainerState::ContainerRunning => &["running", "paused", "restarting"],
        ContainerState::ContainerExited => &["exited", "removing", "dead"],
        ContainerState::ContainerUnknown => &[],
    }
}

/// Converts an inspected container.
pub(crate) fn container_status(found: &Container, image: Option<&Image>) -> ContainerStatus {
    let (own_labels, annotations) = labels::parted(&found.config.labels);
    let life = Life::of(found);
    ContainerStatus {
        id: found.id.clone(),
        metadata: names::container_of(&found.name),
        state: life.state.into(),
        created_at: clock::parse(&found.created),
        started_at: life.started_at,
        finished_at: life.finished_at,
        exit_code: life.exit_code,
        image: Some(ImageSpec {
            image: image_name(found, image),
            ..Default::default()
        }),
        image_ref: pullable(&found.image, image),
        reason: life.reason.to_owned(),
        message: life.message,
        labels: own_labels,
        annotations,
        mounts: mounts(found),
        log_path: found
            .config
            .labels
            .get(labels::LOG_PATH)
            .cloned()
            .unwrap_or_default(),
        resources: Some(ContainerResources {
            linux: Some(limits::in_force(
                &found.host_config.resources,
                found.host_config.oom_score_adj,
            )),
            ..Default::default()
        }),
        image_id: found.image.clone(),
        user: user(found).map(|linux| ContainerUser { linux: Some(linux) }),
        stop_signal: stop_signal::parsed(found.config.stop_signal.as_deref().unwrap_or_default())
            .into(),
    }
}

/// Returns the image name that the container was created with. A kubelet creates containers from image ids; those of
/// other clients have one of the image's names.
fn image_name(found: &Container, image: Option<&Image>) -> String {
    let given = &found.config.image;
    let is_id = *given == found.image || found.image.strip_prefix("sha256:") == Some(given);
    if !is_id {
        return given.clone();
    }
    let noted = labels::own(&found.config.labels, labels::IMAGE_NAME).cloned();
    let of_image = || image.and_then(super::image::first_name);
    noted.or_else(of_image).unwrap_or_else(|| given.clone())
}

/// Returns the user of the first process, if it is certain. A user without a group, or given by name, gets its groups
/// from files in the image.
fn user(found: &Container) -> Option<LinuxContainerUser> {
    let (uid, gid) = found.config.user.split_once(':')?;
    let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
    let mut groups = vec![gid];
    for group in &found.host_config.group_add {
        let group = group.parse().ok()?;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Some(LinuxContainerUser {
        uid,
        gid,
        supplemental_groups: groups,
    })
}

/// The state and timestamps of a container.
struct Life {
    state: ContainerState,
    started_at: i64,
    finished_at: i64,
    exit_code: i32,
    reason: &'static str,
    message: String,
}

impl Life {
    fn of(found: &Container) -> Self {
        let now = &found.state;
        let created_at = clock::parse(&found.created);
        let mut life = Self {
            state: ContainerState::ContainerCreated,
            started_at: clock::parse(&now.started_at),
            finished_at: clock::parse(&now.finished_at),
            exit_code: 0,
            reason: "",
            message: String::new(),
        };
        if now.running {
            life.state = ContainerState::ContainerRunning;
            life.finished_at = 0;
        } else if life.finished_at != 0 {
            life.state = ContainerState::ContainerExited;
            life.exit_code = now.exit_code;
            life.reason = match now.exit_code {
                _ if now.oom_killed => "OOMKilled",
                0 => "Completed",
                _ => "Error",
            };
            life.message.clone_from(&now.error);
        } else if now.exit_code != 0 {
            // The container failed to start. The engine reports it as created, with an exit code.
            life.state = ContainerState::ContainerExited;
            life.started_at = created_at;
            life.finished_at = created_at;
            life.exit_code = now.exit_code;
            life.reason = "ContainerCannotRun";
            life.message.clone_from(&now.error);
        }
        life
    }
}

fn mounts(found: &Container) -> Vec<Mount> {
    let images = labels::own(&found.config.labels, labels::MOUNTED_IMAGES);
    let images = images.and_then(|text| serde_json::from_slice(text.as_bytes()).ok());
    let images: BTreeMap<String, String> = images.unwrap_or_default();
    let points = found.mounts.iter();
    points.filter_map(|point| mount(point, &images)).collect()
}

fn mount(point: &MountPoint, images: &BTreeMap<String, String>) -> Option<Mount> {
    let mut mount = Mount {
        container_path: point.destination.clone(),
        readonly: !point.rw,
        ..Default::default()
    };
    match point.r#type.as_str() {
        "bind" => mount.host_path.clone_from(&point.source),
        "image" => {
            mount.image = Some(ImageSpec {
                image: point.source.clone(),
                image_ref: images.get(&point.destination).cloned().unwrap_or_default(),
                ..Default::default()
            });
        }
        // Anonymous volumes of the image, which the request does not contain.
        _ => return None,
    }
    mount.set_propagation(match point.propagation.as_str() {
        "rshared" | "shared" => MountPropagation::PropagationBidirectional,
        "rslave" | "slave" => MountPropagation::PropagationHostToContainer,
        _ => MountPropagation::PropagationPrivate,
    });
    Some(mount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::types::ContainerState as State;

    const NEVER: &str = "0001-01-01T00:00:00Z";

    fn life(state: State) -> Life {
        Life::of(&Container {
            created: "2026-01-01T00:00:00Z".into(),
            state,
            ..Container::default()
        })
    }

    #[test]
    fn a_mounted_image_is_told_by_its_id() {
        let mut found = Container::default();
        found.mounts.push(MountPoint {
            r#type: "image".into(),
            source: "busybox:1".into(),
            destination: "/data".into(),
            ..MountPoint::default()
        });
        let images = r#"{"/data":"sha256:12ab"}"#.to_owned();
        let labels = &mut found.config.labels;
        labels.insert(labels::MOUNTED_IMAGES.into(), images);
        let status = container_status(&found, None);
        let image = status.mounts[0].image.clone().unwrap();
        assert_eq!(image.image, "busybox:1");
        assert_eq!(image.image_ref, "sha256:12ab");
        assert!(status.labels.is_empty());
    }

    #[test]
    fn a_container_s_image_has_the_name_that_it_was_made_with() {
        let mut found = Container {
            image: "sha256:12ab".into(),
            ..Container::default()
        };
        let name = |found: &Container, image: Option<&Image>| {
            container_status(found, image).image.unwrap().image
        };
        found.config.image = "busybox:1".into();
        assert_eq!(name(&found, None), "busybox:1");
        // A container of a kubelet, created from the image id.
        found.config.image = "sha256:12ab".into();
        assert_eq!(name(&found, None), "sha256:12ab");
        let image = Image {
            repo_tags: vec!["<none>:<none>".into(), "r.example/a:2".into()],
            ..Image::default()
        };
        assert_eq!(name(&found, Some(&image)), "r.example/a:2");
        let labels = &mut found.config.labels;
        labels.insert(labels::IMAGE_NAME.into(), "r.example/a:1".into());
        assert_eq!(name(&found, Some(&image)), "r.example/a:1");
        assert!(container_status(&found, None).labels.is_empty());
    }

    #[test]
    fn a_container_s_user_is_told_where_it_is_certain() {
        let of = |user: &str, groups: &[&str]| {
            let mut found = Container::default();
            found.config.user = user.into();
            found.host_config.group_add = groups.iter().map(ToString::to_string).collect();
            let user = container_status(&found, None).user?.linux?;
            Some((user.uid, user.gid, user.supplemental_groups))
        };
        assert_eq!(of("5:6", &["7", "6"]), Some((5, 6, vec![6, 7])));
        for unknown in ["", "5", "www", "www:6", "5:www"] {
            assert_eq!(of(unknown, &[]), None, "{unknown}");
        }
    }

    fn at(started: &str, finished: &str) -> State {
        State {
            started_at: started.into(),
            finished_at: finished.into(),
            ..State::default()
        }
    }

    #[test]
    fn the_state_follows_from_what_happened() {
        let created = life(at(NEVER, NEVER));
        assert_eq!(created.state, ContainerState::ContainerCreated);
        let running = life(State {
            running: true,
            ..at("2026-01-01T00:00:01Z", NEVER)
        });
        assert_eq!(running.state, ContainerState::ContainerRunning);
        assert!(running.started_at > 0);
        for (code, oom, reason) in [
            (0, false, "Completed"),
            (3, false, "Error"),
            (137, true, "OOMKilled"),
        ] {
            let ended = life(State {
                exit_code: code,
                oom_killed: oom,
                ..at("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z")
            });
            assert_eq!(ended.state, ContainerState::ContainerExited);
            assert_eq!((ended.exit_code, ended.reason), (code, reason));
        }
    }

    #[test]
    fn what_could_not_start_has_ended() {
        let failed = life(State {
            exit_code: 127,
            error: "no such file".into(),
            ..at(NEVER, NEVER)
        });
        assert_eq!(failed.state, ContainerState::ContainerExited);
        assert_eq!(
            (failed.reason, &*failed.message),
            ("ContainerCannotRun", "no such file")
        );
        assert!(failed.started_at > 0 && failed.finished_at == failed.started_at);
    }
}
