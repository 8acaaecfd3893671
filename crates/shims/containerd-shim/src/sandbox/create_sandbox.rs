//! `CreateSandbox`: creates the pod.

use std::path::PathBuf;
use std::sync::Arc;

use orlop_containerd_api::sandbox::CreateSandboxRequest;
use orlop_cri_api::v1::PodSandboxConfig;
use orlop_ttrpc::decode;

use super::config;
use crate::error::Result;
use crate::options::Options;
use crate::place::checked;
use crate::shared_files;
use crate::shim::Shim;
use crate::shm::Rules;
use crate::stdio::Streams;
use crate::tasks::Task;

pub(super) fn call(shim: &Arc<Shim>, request: CreateSandboxRequest) -> Result<()> {
    let id = request.sandbox_id;
    checked(&id)?;
    let bundle = PathBuf::from(request.bundle_path);
    // A sandbox that was not created by a kubelet has all namespaces of its own.
    let config: PodSandboxConfig = decode(&request.options.unwrap_or_default().value)?;
    let shm_size = Rules::told().size(&config, &bundle)?;
    let wanted = config::wanted(&id, &config, &request.netns_path, shm_size)?;
    let dns = config.dns_config.as_ref().and_then(config::resolv_conf);
    let options = Options {
        systemd_cgroup: wanted.cgroups_path.contains(':'),
        ..Options::default()
    };
    shim.tasks
        .lock()
        .add(&id, Task::making(bundle, Streams::default()))?;
    let made = shim
        .make_pod(&id, &wanted, &options)
        .and_then(|_| shared_files::write(shim, dns, &wanted.hostname));
    made.inspect_err(|_| {
        shim.forget(&id);
    })
}
