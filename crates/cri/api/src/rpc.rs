//! The calls of the interface by name, for logs, metrics and errors.

use std::fmt;

macro_rules! calls {
    ($($name:ident $operation:literal,)*) => {
        /// A call of the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are the interface's")]
        pub enum Rpc {
            $($name,)*
        }

        impl Rpc {
            /// All calls: those of the runtime service, then those of the image service.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name in the interface: `RunPodSandbox`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns the name in the kubelet's metrics (label `operation_type`): `run_podsandbox`.
            pub const fn operation(self) -> &'static str {
                match self {
                    $(Self::$name => $operation,)*
                }
            }

            /// Finds the call with a name of the interface.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

calls! {
    Version "version",
    RunPodSandbox "run_podsandbox",
    StopPodSandbox "stop_podsandbox",
    RemovePodSandbox "remove_podsandbox",
    PodSandboxStatus "podsandbox_status",
    ListPodSandbox "list_podsandbox",
    StreamPodSandboxes "stream_podsandboxes",
    CreateContainer "create_container",
    StartContainer "start_container",
    StopContainer "stop_container",
    RemoveContainer "remove_container",
    ListContainers "list_containers",
    StreamContainers "stream_containers",
    ContainerStatus "container_status",
    UpdateContainerResources "update_container",
    ReopenContainerLog "reopen_container_log",
    ExecSync "exec_sync",
    Exec "exec",
    Attach "attach",
    PortForward "port_forward",
    ContainerStats "container_stats",
    ListContainerStats "list_container_stats",
    StreamContainerStats "stream_container_stats",
    PodSandboxStats "podsandbox_stats",
    ListPodSandboxStats "list_podsandbox_stats",
    StreamPodSandboxStats "stream_podsandbox_stats",
    UpdateRuntimeConfig "update_runtime_config",
    Status "status",
    CheckpointContainer "checkpoint_container",
    CheckpointPod "checkpoint_pod",
    RestorePod "restore_pod",
    GetContainerEvents "get_container_events",
    ListMetricDescriptors "list_metric_descriptors",
    ListPodSandboxMetrics "list_podsandbox_metrics",
    StreamPodSandboxMetrics "stream_podsandbox_metrics",
    RuntimeConfig "runtime_config",
    UpdatePodSandboxResources "update_podsandbox_resources",
    ListImages "list_images",
    StreamImages "stream_images",
    ImageStatus "image_status",
    PullImage "pull_image",
    RemoveImage "remove_image",
    ImageFsInfo "image_fs_info",
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
