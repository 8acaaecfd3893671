//! `state`: prints the state of a container.

use super::command::{Call, HELP, Verb};
use crate::args::FlagsEnd;
use crate::error::{Result, While};
use crate::state::InOrder;

pub(super) const VERB: Verb = Verb {
    name: "state",
    about: "output the state of a container as JSON",
    arguments: "CONTAINER",
    flags: &[HELP],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let (dir, state) = call.known()?;
    let document = state.document(state.status(&dir));
    let text = serde_json::to_string_pretty(&InOrder(&document))
        .doing(|| "cannot encode the container state".to_owned())?;
    println!("{text}");
    Ok(0)
}
