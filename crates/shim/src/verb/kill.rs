//! `kill`: a signal for a container.

use crate::arguments::Words;
use crate::error::{Error, Result};
use crate::home::Home;

pub(crate) fn run(home: &Home, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    let signal = words.word(1)?;
    let signal = signal
        .parse()
        .map_err(|_| Error::Usage(format!("{signal:?} is no signal's number")))?;
    let all = words.has("--all");
    crate::task(home, words)?.kill(&id, "", signal, all)
}
