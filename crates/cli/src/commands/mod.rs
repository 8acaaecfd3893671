//! The commands: one file or directory for each, by its name, and nothing else.

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

pub use doctor::{Examined, Host};
pub use image::import_archive;

// Whatever lists commands comes from this table; only the lines above must be there too, since
// rustfmt finds files by them.
commands! {
    both {
        /// Join the streams of a running container
        Attach = attach,
        /// Write running containers to archives, or those of a pod to a directory
        Checkpoint = checkpoint,
        /// Copy files to or from a container
        Cp = cp,
        /// Create a container in a pod
        Create = create,
        /// Show what a container has changed in its root file system
        Diff = diff,
        /// Tell what is wrong with this node, and how to mend it
        Doctor = doctor,
        /// Show what happens to containers, as it happens
        #[command(visible_alias = "event")]
        Events = events,
        /// Run a command in a container
        Exec = exec,
        /// Import, export, fetch, verify and clean up images; without a word of these, list them
        Image = image,
        /// Show how full the image file systems are
        Imagefsinfo = imagefsinfo,
        /// List images
        #[command(visible_alias = "img")]
        Images = images,
        /// Show the state of the runtime
        #[command(visible_alias = "status")]
        Info = info,
        /// Show containers in full
        Inspect = inspect,
        /// Show images in full
        Inspecti = inspecti,
        /// Show pods in full
        Inspectp = inspectp,
        /// Show the log of a container, or of all containers of a pod
        Logs = logs,
        /// List what metricsp can report
        Metricdescs = metricdescs,
        /// Show the metrics of pods
        Metricsp = metricsp,
        /// Show what pods have of the networks, and what is orphaned
        Network = network,
        /// Have local ports lead into a pod
        PortForward = port_forward,
        /// List pods
        Pods = pods,
        /// Remove what has ended
        Prune = prune,
        /// List containers
        Ps = ps,
        /// Fetch an image
        Pull = pull,
        /// Let a pod go on from a checkpoint
        Restore = restore,
        /// Remove containers
        Rm = rm,
        /// Remove images, with all their names
        Rmi = rmi,
        /// Remove pods
        Rmp = rmp,
        /// Run a container in a pod of its own
        Run = run,
        /// Run a pod
        Runp = runp,
        /// Show the settings that the kubelet and the runtime share
        RuntimeConfig = runtime_config,
        /// Start created containers
        Start = start,
        /// Show what containers use
        Stats = stats,
        /// Show what pods use
        Statsp = statsp,
        /// Stop containers
        Stop = stop,
        /// Stop pods
        Stopp = stopp,
        /// Watch what pods and containers use, with logs and shells at a key
        Top = top,
        /// Show where the time of a pod's start went
        Trace = trace,
        /// Show pods, their containers and the processes of these
        Tree = tree,
        /// Change the limits of containers
        Update = update,
        /// Tell the runtime the addresses for pods
        UpdateRuntimeConfig = update_runtime_config,
        /// Show who the runtime is
        Version = version,
        /// Wait until containers and pods are in a state
        Wait = wait,
        /// See the node in a browser
        Web = web,
    }
    crictl {
        /// Get, set and list the options in crictl.yaml
        Config = config,
    }
}
