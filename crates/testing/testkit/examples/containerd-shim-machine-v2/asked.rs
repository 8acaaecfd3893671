//! What a shim is asked for, as Kata's reads it.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use orlop_containerd_api::types::Mount;
use orlop_containerd_api::{Any, Message, runtimeoptions};
use serde_json::{Value, json};

use crate::{Answer, refused};

const DIRECT: &str = "/run/kata-containers/shared/direct-volumes";
const VOLUME: &str = "io.katacontainers.volume=";

/// The options as such a shim reads them: those of runc's it passes over, of others it knows nothing.
pub(crate) fn understood(options: &Any) -> Answer<Value> {
    match options.type_url.as_str() {
        "" => Ok(Value::Null),
        "containerd.runc.v1.Options" => Ok(json!({"type": options.type_url})),
        "runtimeoptions.v1.Options" => {
            let read = runtimeoptions::Options::decode(&*options.value).expect("options");
            let config = fs::read_to_string(&read.config_path).unwrap_or_default();
            Ok(json!({
                "type": options.type_url, "type_url": read.type_url, "path": read.config_path,
                "body": String::from_utf8_lossy(&read.config_body), "config": config,
            }))
        }
        other => Err(refused(format!("{other} is no type that is registered"))),
    }
}

/// The image that the guest is to pull. A file system of the one type is nothing to be mounted here; what
/// the volume says of the image is overruled by the specification.
pub(crate) fn image_of(rootfs: &[Mount], spec: &Value) -> Answer<Option<String>> {
    let [mount] = rootfs else {
        return Ok(None);
    };
    let mut volumes = mount
        .options
        .iter()
        .filter_map(|it| it.strip_prefix(VOLUME));
    let Some(volume) = volumes.next() else {
        return Ok(None);
    };
    if mount.r#type != "fuse.nydus-overlayfs" {
        return Err(refused("it would be mounted on the host"));
    }
    let volume = BASE64_STANDARD.decode(volume).expect("base64");
    let volume: Value = serde_json::from_slice(&volume).expect("JSON");
    let said = volume["source"].as_str().unwrap_or_default();
    if volume["volume_type"] != "image_guest_pull"
        || said.is_empty()
        || !volume["image_pull"]["metadata"].is_object()
    {
        return Err(refused(format!("{volume} is no image to be pulled")));
    }
    let annotation = |name: &str| spec["annotations"][format!("io.kubernetes.cri.{name}")].as_str();
    let name = match annotation("container-type") {
        Some("sandbox") => "pause",
        _ => annotation("image-name").ok_or_else(|| refused("no image name in annotations"))?,
    };
    if name != said {
        return Err(refused(format!("{said} is wanted, and {name}")));
    }
    Ok(Some(name.to_owned()))
}

/// What the guest mounts itself: the volumes that somebody has noted for it.
pub(crate) fn mount_volumes(spec: &mut Value) {
    let pod = spec["annotations"]["io.kubernetes.cri.sandbox-id"].clone();
    for mount in spec["mounts"].as_array_mut().expect("mounts") {
        let source = mount["source"].as_str().unwrap_or_default();
        let volume = Path::new(DIRECT).join(BASE64_URL_SAFE.encode(source));
        let Ok(info) = fs::read(volume.join("mountInfo.json")) else {
            continue;
        };
        let info: Value = serde_json::from_slice(&info).expect("JSON");
        fs::write(volume.join(pod.as_str().expect("a pod")), "").expect("write");
        mount["source"] = info["device"].clone();
        mount["type"] = info["fstype"].clone();
        mount["options"] = info["options"].clone();
    }
}
