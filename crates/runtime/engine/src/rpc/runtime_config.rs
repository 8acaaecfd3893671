//! `RuntimeConfig`: returns the cgroup driver, which the kubelet adopts.

use orlop_cgroup::Driver;
use orlop_cri_api::v1::{
    CgroupDriver, LinuxRuntimeConfiguration, RuntimeConfigRequest, RuntimeConfigResponse,
};

use crate::engine::Engine;
use crate::error::Result;

/// Handles the `RuntimeConfig` call.
pub async fn call(Engine(node): &Engine, _: RuntimeConfigRequest) -> Result<RuntimeConfigResponse> {
    let cgroup_driver = match node.cgroups.driver() {
        Driver::Cgroupfs => CgroupDriver::Cgroupfs,
        Driver::Systemd => CgroupDriver::Systemd,
    };
    let linux = LinuxRuntimeConfiguration {
        cgroup_driver: cgroup_driver.into(),
    };
    Ok(RuntimeConfigResponse { linux: Some(linux) })
}
