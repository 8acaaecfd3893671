//! Runtimes whose containers live in one that is made for the pod: gVisor's `runsc`.
//!
//! They have runc's command line, but their processes are none of the host's: the number that they
//! write down is the sandbox's, and how a process ended is told to who waits by a command of
//! theirs. So here, too, each process has one that stands for it ([`stand_in`]); the pod's own container
//! and who watches over it are in [`pod`], whose processes a container sees in [`processes`], the calls of the runtime in [`runtime`].

mod capabilities;
mod files;
mod pod;
mod processes;
mod runtime;
mod stand_in;
mod verbs;

use serde_json::Value;

use crate::arguments::{Inner, Settings, Words};
use crate::error::{Error, Result};
use crate::state_dir::StateDir;

pub(crate) fn run(
    settings: &Settings,
    inner: &Inner,
    state: &StateDir,
    command: &str,
    words: &Words,
) -> Result<u8> {
    let runtime = runtime::Runtime::new(settings, inner);
    match command {
        "supervise" => pod::supervise(&runtime, state, words)?,
        "proxy" => return stand_in::run(&runtime, state, words),
        "create" => verbs::create(settings, &runtime, state, words)?,
        "start" => stand_in::start(&state.task(&words.word(0)?)?)?,
        "exec" => crate::exec::run(settings, state, words)?,
        "kill" => runtime.kill(&words.word(0)?, &words.word(1)?, words.has("--all"))?,
        "delete" => verbs::delete(&runtime, state, words)?,
        "state" => print!(
            "{}",
            runtime.answer(&["state".into(), words.word(0)?.into()])?
        ),
        // Their processes have no numbers on this kernel.
        "ps" => println!("[]"),
        "pause" | "resume" => runtime.call(&[command.into(), words.word(0)?.into()])?,
        "end-pod" => pod::end(&runtime, state, &state.pod(&words.word(0)?)?)?,
        _ => {
            let program = runtime.name();
            return Err(Error::Usage(format!(
                "{program} does not support the command {command}"
            )));
        }
    }
    Ok(0)
}

/// What it says that it can do; older ones do not know the question.
pub(crate) fn features(settings: &Settings, inner: &Inner) -> Option<String> {
    let told = runtime::Runtime::new(settings, inner).features();
    told.map(|told| without_joined_users(told).to_string())
}

/// runsc makes user namespaces of its own and says so, but joins none, such as a pod's.
fn without_joined_users(mut told: Value) -> Value {
    let namespaces = told.pointer_mut("/linux/namespaces");
    if let Some(namespaces) = namespaces.and_then(Value::as_array_mut) {
        namespaces.retain(|kind| kind != "user");
    }
    told
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::without_joined_users;

    #[test]
    fn user_namespaces_are_not_said_to_be_joined() {
        let told = json!({"linux": {"namespaces": ["pid", "user"], "capabilities": []}});
        let kept = json!({"linux": {"namespaces": ["pid"], "capabilities": []}});
        assert_eq!(without_joined_users(told), kept);
        assert_eq!(
            without_joined_users(json!({"linux": 1})),
            json!({"linux": 1})
        );
        assert_eq!(without_joined_users(json!({})), json!({}));
    }
}
