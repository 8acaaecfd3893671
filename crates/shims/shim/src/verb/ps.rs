//! `ps`: lists the processes of a container by their pids on the host.

use crate::arguments::Words;
use crate::error::Result;
use crate::state_dir::StateDir;

pub(crate) fn run(state: &StateDir, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    let pids = state.shim_of(&id)?.pids(&id)?;
    println!("{}", serde_json::json!(pids));
    Ok(())
}
