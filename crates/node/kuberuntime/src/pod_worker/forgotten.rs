//! Containers that the runtime no longer knows: their last status stays visible, as with a kubelet.

use orlop_kubelet_rules::phase::ContainerView;
use serde_json::{Value, json};

use super::container_state::{Shown, Waiting};

/// The last status of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Former {
    state: Value,
    last: Value,
    restarts: u32,
    word: Option<String>,
}

/// The status of a container that is gone.
#[derive(Debug, PartialEq)]
pub(super) struct Left {
    /// The `terminated` state if the end is known, or why it cannot restart; otherwise it waits for
    /// its next start.
    pub(super) state: Option<Value>,
    pub(super) last: Value,
    pub(super) restarts: u32,
    pub(super) view: ContainerView,
    pub(super) word: Option<String>,
}

impl Former {
    pub(super) fn of(shown: &Shown) -> Self {
        Self {
            state: shown.json["state"].clone(),
            last: shown.json["lastState"].clone(),
            restarts: shown.restarts,
            word: shown.word.clone(),
        }
    }

    /// Returns the status after the container is gone. A running container counts as ended; if the
    /// pod continues, that is one more restart.
    pub(super) fn left(&self, goes_on: bool) -> Left {
        if let Some(ended) = self.state.get("terminated") {
            let exit_code = ended["exitCode"]
                .as_i64()
                .and_then(|code| code.try_into().ok());
            return Left {
                state: Some(self.state.clone()),
                last: self.last.clone(),
                restarts: self.restarts,
                view: ContainerView::Terminated {
                    exit_code: exit_code.unwrap_or(UNKNOWN),
                },
                word: self.word.clone(),
            };
        }
        let ran = self.state.get("running").is_some();
        let last = if ran { unseen() } else { self.last.clone() };
        let exit_code = last["terminated"]["exitCode"].as_i64();
        Left {
            state: None,
            last,
            restarts: self.restarts.saturating_add((ran && goes_on).into()),
            view: ContainerView::Waiting {
                last_exit: exit_code.and_then(|code| code.try_into().ok()),
            },
            word: None,
        }
    }
}

impl Left {
    /// Returns the status if the container should restart but cannot: its end becomes its last
    /// state.
    pub(super) fn kept_by(self, why: Option<&Waiting>) -> Self {
        let (Some(ended), Some(why)) = (&self.state, why) else {
            return self;
        };
        let exit_code = match self.view {
            ContainerView::Terminated { exit_code } => Some(exit_code),
            _ => None,
        };
        Self {
            last: ended.clone(),
            state: Some(why.shown()),
            view: ContainerView::Waiting {
                last_exit: exit_code,
            },
            word: Some(why.reason.to_string()),
            ..self
        }
    }
}

/// The exit code of a container whose end was not observed.
const UNKNOWN: i32 = 137;

fn unseen() -> Value {
    json!({"terminated": {
        "reason": "ContainerStatusUnknown", "exitCode": UNKNOWN,
        "message": "The container could not be located when the pod status was read",
        "startedAt": null, "finishedAt": null,
    }})
}

#[cfg(test)]
mod tests {
    use orlop_kubelet_rules::waiting::WaitingReason;

    use super::*;

    fn former(state: Value) -> Former {
        Former {
            state,
            last: json!({"terminated": {"exitCode": 3}}),
            restarts: 2,
            word: Some("Error".to_owned()),
        }
    }

    #[test]
    fn what_was_known_of_a_container_that_is_gone_is_shown_on() {
        let ended = former(json!({"terminated": {"exitCode": 1}})).left(true);
        assert_eq!(ended.state, Some(json!({"terminated": {"exitCode": 1}})));
        assert_eq!((ended.restarts, ended.word.as_deref()), (2, Some("Error")));
        assert_eq!(ended.view, ContainerView::Terminated { exit_code: 1 });
        let waited = former(json!({"waiting": {"reason": "CrashLoopBackOff"}})).left(true);
        assert_eq!((waited.state, waited.restarts), (None, 2));
        assert_eq!(waited.last["terminated"]["exitCode"], 3);
        assert_eq!(waited.view, ContainerView::Waiting { last_exit: Some(3) });
    }

    #[test]
    fn why_one_that_is_gone_cannot_start_again_is_shown() {
        let why = Waiting {
            reason: WaitingReason::ImagePullBackOff,
            message: "no such host".to_owned(),
        };
        let end = json!({"terminated": {"exitCode": 1}});
        let left = former(end.clone()).left(true);
        let kept = left.kept_by(Some(&why));
        let waits = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}});
        assert_eq!((kept.state, kept.last), (Some(waits), end.clone()));
        assert_eq!(kept.view, ContainerView::Waiting { last_exit: Some(1) });
        assert_eq!(
            (kept.restarts, kept.word.as_deref()),
            (2, Some("ImagePullBackOff"))
        );
        let free = former(end.clone()).left(true).kept_by(None);
        assert_eq!(free.state, Some(end));
        // Its end is recorded already.
        let waited = former(json!({"waiting": {}}))
            .left(true)
            .kept_by(Some(&why));
        assert_eq!(waited, former(json!({"waiting": {}})).left(true));
    }

    #[test]
    fn one_that_ran_and_is_gone_counts_a_restart_if_the_pod_goes_on() {
        let running = former(json!({"running": {}}));
        let left = running.left(true);
        assert_eq!((left.state, left.restarts), (None, 3));
        assert_eq!(left.last["terminated"]["reason"], "ContainerStatusUnknown");
        assert_eq!(running.left(false).restarts, 2);
        let new = Former::default().left(true);
        assert_eq!(new.restarts, 0);
        assert_eq!(new.view, ContainerView::Waiting { last_exit: None });
    }
}
