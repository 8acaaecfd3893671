//! `ps`: the processes of a container, by their numbers on the host.

use crate::arguments::Words;
use crate::error::Result;
use crate::home::Home;

pub(crate) fn run(home: &Home, words: &Words) -> Result<()> {
    let id = words.word(0)?;
    let pids = crate::task(home, words)?.pids(&id)?;
    println!("{}", serde_json::json!(pids));
    Ok(())
}
