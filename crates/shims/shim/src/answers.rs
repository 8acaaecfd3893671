//! Answers of a pod's supervisor to the daemon.

use orlop_containerd_api::Message;
use orlop_cri_api::v1::UpdatePodSandboxResourcesRequest;
use serde_json::{Map, Value, json};

use crate::arguments::{Sandboxer, Settings};
use crate::controller::{self, SandboxState};
use crate::error::{Error, Result};
use crate::question::{DOWN, Question, READY};
use crate::state_dir::PodDir;

/// The answer to a completed request.
const DONE: &str = "done";

/// Answers a question; without an answer, the daemon takes the result as unknown.
pub(crate) fn answer(
    settings: &Settings,
    pod: &PodDir,
    question: Question,
    of: &str,
) -> Option<String> {
    match question {
        Question::Figures if of == pod.id => {
            let endpoint = pod.endpoint().ok()?;
            let told = controller::of(settings).metrics(pod, &endpoint).ok()?;
            told.map(|figures| figures.to_string())
        }
        Question::Figures => {
            let told = pod.tasks().and_then(|mut tasks| tasks.figures(of)).ok()?;
            told.map(|figures| figures.to_string())
        }
        Question::Status => status(settings, pod).ok(),
        Question::Update => Some(match update(settings, pod, of) {
            Ok(()) => DONE.to_owned(),
            Err(error) => error.to_string(),
        }),
    }
}

/// Formats the sandbox's state, and on the next line its details in JSON.
fn status(settings: &Settings, pod: &PodDir) -> Result<String> {
    let endpoint = pod.endpoint()?;
    let told = controller::of(settings).status(pod, &endpoint);
    let (state, problem) = match told {
        Ok(state) => (state, None),
        Err(error) if error.is_not_found() => (SandboxState::gone(), None),
        Err(error) => (SandboxState::default(), Some(error.to_string())),
    };
    let word = if state.is_down() { DOWN } else { READY };
    let (kind, at) = match &settings.sandboxer {
        Sandboxer::Podsandbox => ("podsandbox", None),
        Sandboxer::Shim => ("shim", None),
        Sandboxer::Proxy { address, name } => (name.as_str(), Some(address)),
    };
    let info: Map<String, Value> = state
        .info
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    let known = json!({
        "controller": kind,
        "controllerAddress": at,
        "address": endpoint.address(),
        "version": endpoint.version,
        "pid": endpoint.pid,
        "state": state.state,
        "problem": problem,
        "info": info,
    });
    Ok(format!("{word}\n{known}"))
}

fn update(settings: &Settings, pod: &PodDir, request: &str) -> Result<()> {
    let request = bytes_of(request)
        .and_then(|bytes| UpdatePodSandboxResourcesRequest::decode(&*bytes).ok())
        .ok_or_else(|| Error::Garbled("the resources of the pod".into()))?;
    let told = controller::of(settings).update(pod, &pod.endpoint()?, &request);
    told.or_else(|error| match error {
        // Shims of before containerd 2 do not support this call.
        Error::Refused { code, .. } if code == orlop_ttrpc::code::UNIMPLEMENTED => Ok(()),
        error => Err(error),
    })
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
