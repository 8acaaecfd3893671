//! `update`: updates the resources of a container.

use crate::arguments::Words;
use crate::error::Result;
use crate::spec::read;
use crate::state_dir::StateDir;

pub(crate) fn run(state: &StateDir, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    let resources = read(&words.needed("--resources")?)?;
    state.shim_of(&id)?.update(&id, resources)
}
