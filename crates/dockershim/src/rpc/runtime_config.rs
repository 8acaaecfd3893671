//! `RuntimeConfig`: the engine's cgroup driver, which the kubelet adopts.

use orlop_cgroup::Driver;
use orlop_cri_api::v1::{
    CgroupDriver, LinuxRuntimeConfiguration, RuntimeConfigRequest, RuntimeConfigResponse,
};

use crate::error::Result;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, _: RuntimeConfigRequest) -> Result<RuntimeConfigResponse> {
    let cgroup_driver = match shim.info.cgroup_driver().await? {
        Driver::Cgroupfs => CgroupDriver::Cgroupfs,
        Driver::Systemd => CgroupDriver::Systemd,
    };
    let linux = LinuxRuntimeConfiguration {
        cgroup_driver: cgroup_driver.into(),
    };
    Ok(RuntimeConfigResponse { linux: Some(linux) })
}
