//! Files that a pod's containers share. containerd provides them if it creates the pod from a container, but not for a
//! pod created by the Sandbox service.

use std::fs;
use std::path::{Path, PathBuf};

use orlop_fs::SMALL_FILE;
use serde_json::{Value, json};

use crate::error::{Result, failed};
use crate::place::make_private;
use crate::shim::Shim;

const SHM: &str = "/dev/shm";

/// Writes the files and records their paths. A pod without its own DNS configuration gets the node's
/// `/etc/resolv.conf`.
pub(crate) fn write(shim: &Shim, resolv_conf: Option<String>, hostname: &str) -> Result<()> {
    let dir = shim.place.shared();
    make_private(&dir)?;
    let hosts = |path: &str| orlop_fs::read_text(path, SMALL_FILE).unwrap_or_default();
    let mut files: Vec<(&'static str, String)> = vec![
        (
            "/etc/resolv.conf",
            resolv_conf.unwrap_or_else(|| hosts("/etc/resolv.conf")),
        ),
        ("/etc/hosts", hosts("/etc/hosts")),
    ];
    if !hostname.is_empty() {
        files.push(("/etc/hostname", format!("{hostname}\n")));
    }
    for (place, content) in files {
        let name = place.rsplit('/').next().unwrap_or(place);
        let path = dir.join(name);
        fs::write(&path, content).map_err(failed("writing", &path))?;
        shim.pod.lock().shared.push((place, path));
    }
    Ok(())
}

/// Adds the pod's files to a container's specification, except those that it already has.
pub(crate) fn share(shim: &Shim, bundle: &Path) -> Result<()> {
    let shared = shim.pod.lock().shared.clone();
    if shared.is_empty() {
        return Ok(());
    }
    let path = bundle.join("config.json");
    let text = orlop_fs::read_file(&path, SMALL_FILE).map_err(failed("reading", &path))?;
    let spec = serde_json::from_slice(&text);
    let mut spec: Value = spec.map_err(failed("parsing", &path))?;
    add(&mut spec, &shared);
    let text = serde_json::to_vec(&spec).map_err(failed("writing", &path))?;
    fs::write(&path, text).map_err(failed("writing", &path))
}

fn add(spec: &mut Value, shared: &[(&'static str, PathBuf)]) {
    if !spec["mounts"].is_array() {
        spec["mounts"] = json!([]);
    }
    let Some(mounts) = spec["mounts"].as_array_mut() else {
        return;
    };
    for (place, source) in shared {
        // The container's own tmpfs is a placeholder for the pod's.
        mounts.retain(|mount| {
            *place != SHM || mount["destination"] != SHM || mount["type"] != "tmpfs"
        });
        if mounts.iter().any(|mount| mount["destination"] == *place) {
            continue;
        }
        mounts.push(json!({
            "destination": place,
            "type": "bind",
            "source": source,
            "options": ["rbind", "rprivate", "rw"],
        }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::add;

    #[test]
    fn what_somebody_else_gives_stays() {
        let mut spec = json!({"mounts": [
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm"},
            {"destination": "/etc/hosts", "type": "bind", "source": "/kubelets"},
        ]});
        let shared = [
            ("/dev/shm", "/p/shm".into()),
            ("/etc/hosts", "/p/hosts".into()),
            ("/etc/hostname", "/p/hostname".into()),
        ];
        add(&mut spec, &shared);
        let sources = spec["mounts"].as_array().unwrap();
        let sources: Vec<_> = sources.iter().map(|mount| &mount["source"]).collect();
        assert_eq!(sources, ["/kubelets", "/p/shm", "/p/hostname"]);
    }
}
