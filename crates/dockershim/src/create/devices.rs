//! Host devices, by path or by CDI name.

use orlop_cri_api::v1::ContainerConfig;

use crate::docker::types::{DeviceMapping, DeviceRequest};
use crate::error::{Error, Result};

/// Translates devices given by path.
pub(super) fn mappings(config: &ContainerConfig) -> Result<Vec<DeviceMapping>> {
    let mut mappings = Vec::new();
    for (index, device) in config.devices.iter().enumerate() {
        let field = |name: &str| format!("config.devices[{index}].{name}");
        if !device.host_path.starts_with('/') {
            let problem = format!("{:?} is not an absolute path", device.host_path);
            return Err(Error::invalid(field("host_path"), problem).into());
        }
        if device.permissions.chars().any(|c| !"rwm".contains(c)) {
            let problem = format!("{:?} may only contain r, w and m", device.permissions);
            return Err(Error::invalid(field("permissions"), problem).into());
        }
        let inside = if device.container_path.is_empty() {
            &device.host_path
        } else {
            &device.container_path
        };
        mappings.push(DeviceMapping {
            path_on_host: device.host_path.clone(),
            path_in_container: inside.clone(),
            cgroup_permissions: device.permissions.clone(),
        });
    }
    Ok(mappings)
}

/// Translates devices given by CDI name. The engine has a driver for them if `features.cdi` is on.
pub(super) fn requests(config: &ContainerConfig) -> Vec<DeviceRequest> {
    let names: Vec<String> = config
        .cdi_devices
        .iter()
        .map(|device| device.name.clone())
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![DeviceRequest {
        driver: "cdi".into(),
        device_ids: names,
    }]
}
