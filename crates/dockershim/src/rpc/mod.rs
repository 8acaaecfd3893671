//! RPCs of the CRI, one file each; `call` implements the RPC.

#![expect(clippy::unused_async, reason = "all calls have one shape")]

pub(crate) mod attach;
pub(crate) mod checkpoint_container;
pub(crate) mod checkpoint_pod;
pub(crate) mod container_stats;
pub(crate) mod container_status;
pub(crate) mod create_container;
pub(crate) mod exec;
pub(crate) mod exec_sync;
pub(crate) mod get_container_events;
pub(crate) mod image_fs_info;
pub(crate) mod image_status;
pub(crate) mod list_container_stats;
pub(crate) mod list_containers;
pub(crate) mod list_images;
pub(crate) mod list_metric_descriptors;
pub(crate) mod list_pod_sandbox;
pub(crate) mod list_pod_sandbox_metrics;
pub(crate) mod list_pod_sandbox_stats;
pub(crate) mod pod_sandbox_stats;
pub(crate) mod pod_sandbox_status;
pub(crate) mod port_forward;
pub(crate) mod pull_image;
pub(crate) mod remove_container;
pub(crate) mod remove_image;
pub(crate) mod remove_pod_sandbox;
pub(crate) mod reopen_container_log;
pub(crate) mod restore_pod;
pub(crate) mod run_pod_sandbox;
pub(crate) mod runtime_config;
pub(crate) mod start_container;
pub(crate) mod status;
pub(crate) mod stop_container;
pub(crate) mod stop_pod_sandbox;
pub(crate) mod stream_container_stats;
pub(crate) mod stream_containers;
pub(crate) mod stream_images;
pub(crate) mod stream_pod_sandbox_metrics;
pub(crate) mod stream_pod_sandbox_stats;
pub(crate) mod stream_pod_sandboxes;
pub(crate) mod update_container_resources;
pub(crate) mod update_pod_sandbox_resources;
pub(crate) mod update_runtime_config;
pub(crate) mod version;
