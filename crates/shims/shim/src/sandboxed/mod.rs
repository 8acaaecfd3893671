//! OCI runtimes that run a pod's containers in a sandbox container: gVisor's `runsc`.
//!
//! They have runc's command line, but their processes are not host processes. The pid that they report is the
//! sandbox's, and only one of their commands can wait for a process's exit. Therefore each process has a stand-in
//! ([`stand_in`]) here, too. The sandbox container and its supervisor are in [`pod`], PID namespaces in [`processes`],
//! calls of the runtime in [`runtime`].

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
        // Its processes have no pids on this kernel.
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

/// Returns the features that the runtime reports; older ones do not support the query.
pub(crate) fn features(settings: &Settings, inner: &Inner) -> Option<String> {
    let told = runtime::Runtime::new(settings, inner).features();
    told.map(|told| without_joined_users(told).to_string())
}

/// Removes support of joined user namespaces: runsc creates user namespaces and reports that, but cannot join one,
/// such as a pod's.
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
