//! `checkpoint`: writes a running container to disk with CRIU.

use super::command::{Call, HELP, Verb};
use super::delete;
use crate::args::{Flag, FlagsEnd, Parsed, switch, valued};
use crate::bundle::Bundle;
use crate::criu::{self, CGROUP_MODES, Options};
use crate::error::{Error, Result};
use crate::state::Status;

pub(super) const VERB: Verb = Verb {
    name: "checkpoint",
    about: "checkpoint a running container",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        IMAGE_PATH,
        WORK_PATH,
        valued(
            "parent-path",
            None,
            "DIR",
            "directory of an earlier --pre-dump, relative to --image-path",
        ),
        switch(
            "leave-running",
            None,
            "leave the container running after the checkpoint",
        ),
        TCP_ESTABLISHED,
        switch("tcp-skip-in-flight", None, "skip in-flight TCP connections"),
        switch("link-remap", None, "allow files that are open but deleted"),
        EXT_UNIX_SK,
        SHELL_JOB,
        LAZY_PAGES,
        valued(
            "status-fd",
            None,
            "FD",
            "write a zero byte to this file descriptor when the lazy-pages server is ready",
        ),
        valued(
            "page-server",
            None,
            "ADDRESS:PORT",
            "send memory pages to this page server",
        ),
        FILE_LOCKS,
        switch(
            "pre-dump",
            None,
            "dump only the container's memory and leave the container running",
        ),
        MANAGE_CGROUPS_MODE,
        EMPTY_NS,
        AUTO_DEDUP,
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

pub(super) const IMAGE_PATH: Flag = valued(
    "image-path",
    None,
    "DIR",
    "directory for the CRIU image files (default: ./checkpoint)",
);
pub(super) const WORK_PATH: Flag = valued(
    "work-path",
    None,
    "DIR",
    "directory for the CRIU log files (default: the image directory)",
);
pub(super) const TCP_ESTABLISHED: Flag =
    switch("tcp-established", None, "allow open TCP connections");
pub(super) const EXT_UNIX_SK: Flag = switch("ext-unix-sk", None, "allow external Unix sockets");
pub(super) const SHELL_JOB: Flag = switch(
    "shell-job",
    None,
    "allow shell jobs (a terminal outside the container)",
);
pub(super) const LAZY_PAGES: Flag = switch(
    "lazy-pages",
    None,
    "use userfaultfd to restore memory pages on demand",
);
pub(super) const FILE_LOCKS: Flag = switch("file-locks", None, "handle file locks");
pub(super) const MANAGE_CGROUPS_MODE: Flag = valued(
    "manage-cgroups-mode",
    None,
    "soft|full|strict|ignore",
    "set the cgroup mode of CRIU (default: soft)",
);
pub(super) const EMPTY_NS: Flag = valued(
    "empty-ns",
    None,
    "network",
    "create this namespace without restoring its properties (always done)",
);
pub(super) const AUTO_DEDUP: Flag = switch(
    "auto-dedup",
    None,
    "enable automatic deduplication of memory images",
);

fn run(call: &Call<'_>) -> Result<u8> {
    if !rustix::process::geteuid().is_root() {
        call.log
            .warn("orlop-run checkpoint is untested without root");
    }
    let (dir, state) = call.known()?;
    let status = state.status(&dir);
    if !matches!(status, Status::Running | Status::Paused) {
        return Err(Error::new(format!(
            "Container cannot be checkpointed in {} state",
            status.as_str()
        )));
    }
    let bundle = Bundle::open(&state.bundle)?;
    let options = options(call.parsed)?;
    criu::dump(&state, &bundle, &options, call.log)?;
    if !options.leave_running && !options.pre_dump {
        delete::destroy(&dir, &state, false)?;
    }
    Ok(0)
}

/// Returns the options of `checkpoint` and `restore` from their flags.
pub(super) fn options(parsed: &Parsed) -> Result<Options> {
    let images = parsed
        .path("image-path")
        .unwrap_or_else(|| "checkpoint".into());
    let parent = parsed.text("parent-path")?.filter(|it| !it.is_empty());
    if let Some(parent) = &parent {
        if parent.starts_with('/') {
            return Err(Error::new("--parent-path must be relative"));
        }
        // The parent is relative to this directory and must exist.
        criu::directory(&images)?;
        let whole = images.join(parent);
        if !whole.is_dir() {
            let whole = whole.display();
            return Err(Error::new(format!(
                "invalid --parent-path: {whole} is not a directory"
            )));
        }
    }
    let mode = parsed.text("manage-cgroups-mode")?.unwrap_or_default();
    let cgroups_mode = CGROUP_MODES.iter().find(|(name, _)| *name == mode);
    let (_, cgroups_mode) = cgroups_mode.ok_or_else(|| {
        Error::new("invalid manage-cgroups-mode value: use soft, full, strict or ignore")
    })?;
    for namespace in parsed.values("empty-ns") {
        if namespace != "network" {
            return Err(Error::new(format!(
                "namespace {:?} is not supported",
                namespace.display().to_string()
            )));
        }
    }
    let is_on = |name: &str| parsed.is_on(name);
    let text = |name: &str| parsed.text(name).map(Option::unwrap_or_default);
    Ok(Options {
        images,
        work: parsed.path("work-path"),
        parent,
        leave_running: is_on("leave-running")?,
        tcp_established: is_on("tcp-established")?,
        tcp_skip_in_flight: is_on("tcp-skip-in-flight")?,
        link_remap: is_on("link-remap")?,
        ext_unix_sk: is_on("ext-unix-sk")?,
        shell_job: is_on("shell-job")?,
        file_locks: is_on("file-locks")?,
        pre_dump: is_on("pre-dump")?,
        auto_dedup: is_on("auto-dedup")?,
        lazy_pages: is_on("lazy-pages")?,
        status_fd: parsed.number("status-fd")?.filter(|fd| *fd >= 0),
        page_server: page_server(&text("page-server")?)?,
        lsm_profile: text("lsm-profile")?,
        lsm_mount_context: text("lsm-mount-context")?,
        cgroups_mode: *cgroups_mode,
    })
}

fn page_server(said: &str) -> Result<Option<(String, i32)>> {
    if said.is_empty() {
        return Ok(None);
    }
    let usage = || Error::new("Use --page-server ADDRESS:PORT to specify page server");
    let (address, port) = said.rsplit_once(':').ok_or_else(usage)?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    if address.is_empty() || port.is_empty() {
        return Err(usage());
    }
    let port: u16 = port
        .parse()
        .map_err(|_| Error::new("Invalid port number"))?;
    Ok(Some((address.to_owned(), i32::from(port))))
}
