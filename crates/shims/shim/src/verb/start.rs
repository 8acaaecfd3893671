//! `start`: starts the first process of a container.

use crate::arguments::Words;
use crate::error::Result;
use crate::state_dir::StateDir;

pub(crate) fn run(state: &StateDir, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    state.shim_of(&id)?.start(&id, "")
}
