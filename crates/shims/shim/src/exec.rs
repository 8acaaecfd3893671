//! `exec`: runs another process in a container.

use crate::arguments::{Settings, Words};
use crate::error::{Error, Result};
use crate::ready::{Streams, spawn};
use crate::state_dir::StateDir;

pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    if !state.task(&id)?.exists() {
        return Err(Error::NoContainer(id));
    }
    // The pid is unique, and the process is in the shim no longer than this process lives.
    let name = format!("exec-{}", std::process::id());
    let mut proxy: Vec<_> = vec!["proxy".into(), id.into(), "--exec".into(), name.into()];
    proxy.extend(["--process".into(), words.needed("--process")?.into()]);
    proxy.extend(["--pid-file".into(), words.needed("--pid-file")?.into()]);
    if let Some(socket) = words.option("--console-socket") {
        proxy.extend(["--console-socket".into(), socket.into()]);
    }
    spawn(settings, &proxy, Streams::Ours)
}
