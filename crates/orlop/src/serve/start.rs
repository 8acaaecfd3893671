//! Start of the daemon from the command line.

use std::path::Path;

use rustix::fs::{Mode, statfs};
use rustix::process::umask;

use super::args::ServeArgs;
use super::directories::Directories;
use super::life::live;
use super::serving::Beginning;
use crate::config::load;
use crate::service_manager::Inherited;
use crate::{log, threads};

/// Runs the daemon until a signal stops it.
pub(crate) fn run(args: ServeArgs, inherited: Inherited) -> anyhow::Result<()> {
    let (location, flags) = args.split();
    let loaded = load(&location, &flags)?;
    let config = loaded.config;

    // Code that creates a file sets its mode; an inherited umask must not narrow it.
    umask(Mode::from_raw_mode(0o022));
    let directories = Directories::take(&config)?;

    let levels = log::start(&config.log, inherited.journal)?;
    log::log_panics();
    let files: Vec<String> = loaded
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        root = %config.daemon.root,
        state = %config.daemon.state,
        backend = %config.daemon.backend,
        config = files.join(" "),
        "starting orlop",
    );

    if !is_tmpfs(&config.daemon.state) {
        tracing::warn!(
            state = %config.daemon.state,
            "the state directory is not on a tmpfs; its contents must not survive a reboot",
        );
    }

    let runtime = threads::serving(config.daemon.worker_threads)?;
    let Inherited {
        sockets,
        notifier,
        watchdog,
        ..
    } = inherited;
    let beginning = Beginning {
        location,
        flags,
        config,
        levels,
        sockets,
    };
    let outcome = runtime.block_on(live(beginning, notifier, watchdog));
    threads::end(runtime);
    drop(directories);
    outcome
}

/// Returns whether a directory is on a tmpfs or ramfs.
fn is_tmpfs(dir: &Path) -> bool {
    // `TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2).
    statfs(dir).is_ok_and(|found| matches!(found.f_type, 0x0102_1994 | 0x8584_58f6))
}
