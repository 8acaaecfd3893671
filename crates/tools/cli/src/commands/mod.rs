//! The client commands, one file or directory each.

mod attach;
mod checkpoint;
mod config;
mod cp;
mod create;
mod diff;
mod doctor;
mod events;
mod exec;
mod image;
mod imagefsinfo;
mod images;
mod info;
mod inspect;
mod inspecti;
mod inspectp;
mod logs;
mod metricdescs;
mod metricsp;
mod network;
mod pods;
mod port_forward;
mod prune;
mod ps;
mod pull;
mod restore;
mod rm;
mod rmi;
mod rmp;
mod run;
mod runp;
mod runtime_config;
mod start;
mod stats;
mod statsp;
mod stop;
mod stopp;
mod top;
mod trace;
mod tree;
mod update;
mod update_runtime_config;
mod version;
mod wait;
mod web;

pub use image::import_archive;

// This table is the source of every list of commands. The `mod` lines above are still needed, as rustfmt finds files by
// them.
commands! {
    both {
        /// Attach to a running container
        Attach = attach,
        /// Checkpoint running containers, or all containers of a pod
        Checkpoint = checkpoint,
        /// Copy files and directories to or from a container
        Cp = cp,
        /// Create a new container in a pod
        Create = create,
        /// Show the changes to the root filesystem of a container
        Diff = diff,
        /// Check this node for problems and show how to fix them
        Doctor = doctor,
        /// Stream the events of containers
        #[command(visible_alias = "event")]
        Events = events,
        /// Run a command in a container
        Exec = exec,
        /// Import, export, fetch, verify and clean up images; without a subcommand, list images
        Image = image,
        /// Show the disk usage of the image filesystem
        Imagefsinfo = imagefsinfo,
        /// List images
        #[command(visible_alias = "img")]
        Images = images,
        /// Show the status and information of the container runtime
        #[command(visible_alias = "status")]
        Info = info,
        /// Show the status of one or more containers
        Inspect = inspect,
        /// Show the status of one or more images
        Inspecti = inspecti,
        /// Show the status of one or more pods
        Inspectp = inspectp,
        /// Fetch the logs of a container, or of all containers of a pod
        Logs = logs,
        /// List the metrics that metricsp can show
        Metricdescs = metricdescs,
        /// Show the metrics of pods
        Metricsp = metricsp,
        /// List and inspect pod networks, and release orphaned attachments
        Network = network,
        /// Forward local ports to a pod
        PortForward = port_forward,
        /// List pods
        Pods = pods,
        /// Remove exited containers, stopped pods or unused images
        Prune = prune,
        /// List containers
        Ps = ps,
        /// Pull an image from a registry
        Pull = pull,
        /// Restore a pod from a checkpoint
        Restore = restore,
        /// Remove one or more containers
        Rm = rm,
        /// Remove one or more images, with all their tags
        Rmi = rmi,
        /// Remove one or more pods
        Rmp = rmp,
        /// Run a new container inside a new pod
        Run = run,
        /// Run a new pod
        Runp = runp,
        /// Show the runtime configuration that the kubelet uses (the cgroup driver)
        RuntimeConfig = runtime_config,
        /// Start one or more created containers
        Start = start,
        /// Show the resource usage of containers
        Stats = stats,
        /// Show the resource usage of pods
        Statsp = statsp,
        /// Stop one or more running containers
        Stop = stop,
        /// Stop one or more running pods
        Stopp = stopp,
        /// Show the resource usage of pods and containers in a live full-screen view
        Top = top,
        /// Show how long each step of a pod start took
        Trace = trace,
        /// Show pods, their containers and processes as a tree
        Tree = tree,
        /// Update the resource limits of one or more running containers
        Update = update,
        /// Update the runtime configuration (the pod CIDR)
        UpdateRuntimeConfig = update_runtime_config,
        /// Show the version of the container runtime
        Version = version,
        /// Wait until containers or pods reach a state
        Wait = wait,
        /// Serve a web page that shows this node
        Web = web,
    }
    crictl {
        /// Get, set and list the client options in crictl.yaml
        Config = config,
    }
}
