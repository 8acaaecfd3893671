//! `update`: other resources for a container.

use crate::arguments::Words;
use crate::error::Result;
use crate::home::Home;
use crate::spec::read;

pub(crate) fn run(home: &Home, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    let resources = read(&words.needed("--resources")?)?;
    crate::task(home, words)?.update(&id, resources)
}
