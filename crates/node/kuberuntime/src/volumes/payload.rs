//! The files of ConfigMap, Secret and downward API volumes.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use orlop_kubelet_rules::cri_config::{NodeFacts, Values, field, resource_field};
use orlop_kubelet_rules::pod::{
    ConfigMapVolume, DownwardVolume, KeyToPath, Pod, ProjectedVolume, SecretVolume,
};

use super::VolumeError;

/// The default mode of files in a volume.
const MODE: u32 = 0o644;

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

/// The files of a volume by path.
pub(super) type Payload = BTreeMap<String, File>;

/// The sources of values for volumes.
pub(super) struct Given<'a> {
    pub(super) pod: &'a Pod,
    pub(super) facts: &'a NodeFacts,
    pub(super) values: &'a dyn Values,
}

impl Given<'_> {
    pub(super) fn config_map(
        &self,
        volume: &str,
        wanted: &ConfigMapVolume,
        mode: Option<u32>,
    ) -> Result<Payload, VolumeError> {
        let map = self.values.config_map(&wanted.name);
        let mode = wanted.default_mode.or(mode).unwrap_or(MODE);
        pick(
            "configmap",
            volume,
            &wanted.name,
            map,
            &wanted.items,
            mode,
            wanted.optional,
        )
    }

    pub(super) fn secret(
        &self,
        volume: &str,
        wanted: &SecretVolume,
        mode: Option<u32>,
    ) -> Result<Payload, VolumeError> {
        let map = self.values.secret(&wanted.secret_name);
        let mode = wanted.default_mode.or(mode).unwrap_or(MODE);
        pick(
            "secret",
            volume,
            &wanted.secret_name,
            map,
            &wanted.items,
            mode,
            wanted.optional,
        )
    }

    pub(super) fn downward(
        &self,
        volume: &str,
        wanted: &DownwardVolume,
        mode: Option<u32>,
    ) -> Result<Payload, VolumeError> {
        let mode = wanted.default_mode.or(mode).unwrap_or(MODE);
        let mut payload = Payload::new();
        for item in &wanted.items {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(reference), _) => field(self.pod, self.facts, reference),
                (None, Some(reference)) => resource_field(self.pod, None, self.facts, reference),
                (None, None) => Err(format!(
                    "the file {:?} has no fieldRef or resourceFieldRef",
                    item.path
                )),
            };
            let text = text.map_err(|why| VolumeError::volume(volume, why))?;
            let file = File {
                content: text.into_bytes(),
                mode: item.mode.unwrap_or(mode),
            };
            payload.insert(checked(volume, &item.path)?, file);
        }
        Ok(payload)
    }

    pub(super) fn projected(
        &self,
        volume: &str,
        wanted: &ProjectedVolume,
    ) -> Result<Payload, VolumeError> {
        let mode = Some(wanted.default_mode.unwrap_or(MODE));
        let mut payload = Payload::new();
        for source in &wanted.sources {
            if let Some(map) = &source.config_map {
                payload.extend(self.config_map(volume, map, mode)?);
            }
            if let Some(secret) = &source.secret {
                payload.extend(self.secret(volume, secret, mode)?);
            }
            if let Some(downward) = &source.downward_api {
                payload.extend(self.downward(volume, downward, mode)?);
            }
            if let Some(kind) = source.other.keys().next() {
                let why = format!("a projected source {kind} needs a cluster; remove it");
                return Err(VolumeError::volume(volume, why));
            }
        }
        Ok(payload)
    }
}

fn pick(
    kind: &str,
    volume: &str,
    name: &str,
    map: Option<&BTreeMap<String, Vec<u8>>>,
    items: &[KeyToPath],
    mode: u32,
    optional: bool,
) -> Result<Payload, VolumeError> {
    let Some(map) = map else {
        if optional {
            return Ok(Payload::new());
        }
        let why =
            format!("{kind} {name:?} not found; define it in the same manifest source as the pod");
        return Err(VolumeError::volume(volume, why));
    };
    let file = |content: &Vec<u8>, mode| File {
        content: content.clone(),
        mode,
    };
    let mut payload = Payload::new();
    if items.is_empty() {
        for (key, content) in map {
            payload.insert(checked(volume, key)?, file(content, mode));
        }
    }
    for item in items {
        match map.get(&item.key) {
            Some(content) => {
                let mode = item.mode.unwrap_or(mode);
                payload.insert(checked(volume, &item.path)?, file(content, mode));
            }
            None if optional => {}
            None => {
                let why = format!("references non-existent {kind} key: {}", item.key);
                return Err(VolumeError::volume(volume, why));
            }
        }
    }
    Ok(payload)
}

/// Checks a file's path in a volume: relative, without `..`, and distinct from the writer's own
/// names.
fn checked(volume: &str, path: &str) -> Result<String, VolumeError> {
    let parsed = Path::new(path);
    let plain = parsed
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !plain || path.starts_with("..") || path.len() > 4096 {
        let why = format!("the path {path:?} must be relative and stay inside the volume");
        return Err(VolumeError::volume(volume, why));
    }
    let parts: Vec<_> = parsed.iter().map(|part| part.to_string_lossy()).collect();
    Ok(parts.join("/"))
}
