//! `start`: lets the first process go.

use crate::arguments::Words;
use crate::error::Result;
use crate::home::Home;

pub(crate) fn run(home: &Home, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    crate::task(home, words)?.start(&id, "")
}
