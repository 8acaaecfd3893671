//! Resizes running containers: the kubelet's `doPodResizeAction`.

use std::time::Instant;

use orlop_cri_api::v1;
use orlop_kubelet_rules::actions::Resize;
use orlop_kubelet_rules::cri_config::{container_resources, limit_swap, overhead, pod_resources};

use super::life::Life;
use crate::event::Severity;

impl Life {
    /// Resizes a running container. The pod's cgroup already has its new limits; the kernel accepts
    /// a limit below the current usage only if it can free memory.
    pub(super) async fn resize(&mut self, resize: &Resize, sandbox: &str) -> Result<(), String> {
        let begun = Instant::now();
        let container = self
            .wished
            .container(&resize.name)
            .ok_or_else(|| format!("container {} is not in the manifest", resize.name))?;
        let mut resources = container_resources(
            &self.wished.pod,
            container,
            self.ctx.memory,
            &self.ctx.hugepage_sizes,
        );
        // Only what can change at run time; zero leaves a value unchanged.
        resources.oom_score_adj = 0;
        resources.hugepage_limits.clear();
        if !resize.cpu {
            resources.cpu_shares = 0;
            resources.cpu_quota = 0;
            resources.cpu_period = 0;
        } else if resources.cpu_quota == 0 {
            // The limit was removed.
            resources.cpu_quota = -1;
        }
        if !resize.memory {
            resources.memory_limit_in_bytes = 0;
        } else if resources.memory_limit_in_bytes == 0 {
            resources.memory_limit_in_bytes = -1;
        }
        if resize.memory {
            limit_swap(&mut resources, &self.wished.pod, container, &self.ctx.swap);
            self.protect_memory(&mut resources, container);
        }
        let message = v1::UpdateContainerResourcesRequest {
            container_id: resize.id.clone(),
            linux: Some(resources),
            ..v1::UpdateContainerResourcesRequest::default()
        };
        let updated = self.ctx.runtime.update_container_resources(message).await;
        updated.map_err(|error| format!("cannot resize container {}: {error}", resize.name))?;
        let sums = v1::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: sandbox.to_owned(),
            overhead: Some(overhead(&self.wished.pod)),
            resources: Some(pod_resources(&self.wished.pod)),
        };
        // This is for sandboxes that are virtual machines; most runtimes ignore it or do not
        // implement it.
        if let Err(error) = self.ctx.runtime.update_pod_sandbox_resources(sums).await {
            tracing::debug!(%error, "the runtime does not support pod-level resources");
        }
        self.note_actuated(&resize.name).await;
        self.ctx.metrics.resized(begun.elapsed());
        let message = format!("Container {} resized in place", resize.name);
        self.say(
            Some(&resize.name),
            Severity::Normal,
            "ResizeCompleted",
            message,
        );
        Ok(())
    }
}
