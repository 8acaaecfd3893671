//! `kill`: sends a signal to a container.

use crate::arguments::Words;
use crate::error::{Error, Result};
use crate::state_dir::StateDir;

pub(crate) fn run(state: &StateDir, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    let signal = words.word(1)?;
    let signal = signal
        .parse()
        .map_err(|_| Error::Usage(format!("{signal:?} is not a signal number")))?;
    let all = words.has("--all");
    state.shim_of(&id)?.kill(&id, "", signal, all)
}
