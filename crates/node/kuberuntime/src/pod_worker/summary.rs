//! The one-word status of a pod.

use orlop_kubelet_rules::phase::{ContainerView, PodPhase};
use orlop_kubelet_rules::waiting::WaitingReason;

use super::container_state::Shown;
use super::life::Life;
use crate::pod_view::Stage;

impl Life {
    /// Returns the one-word status of a pod, as `kubectl get pods` shows it.
    pub(super) fn summary(
        &self,
        phase: PodPhase,
        reason: &str,
        init: &[Shown],
        regular: &[Shown],
    ) -> String {
        let mut word = if reason.is_empty() {
            phase_word(phase).to_owned()
        } else {
            reason.to_owned()
        };
        if self.ended.is_some() && !reason.is_empty() {
            return word;
        }
        let spec = &self.wished.pod.spec;
        let mut initializing = false;
        for (i, (container, shown)) in spec.init_containers.iter().zip(init).enumerate() {
            let through = match shown.view {
                ContainerView::Terminated { exit_code } => exit_code == 0,
                ContainerView::Running { started } => container.is_sidecar() && started,
                ContainerView::Waiting { .. } => false,
            };
            if through {
                continue;
            }
            let detail = shown
                .word
                .as_deref()
                .filter(|w| !w.is_empty() && *w != WaitingReason::PodInitializing.word());
            word = match detail {
                Some(detail) => format!("Init:{detail}"),
                None => format!("Init:{i}/{}", spec.init_containers.len()),
            };
            initializing = true;
            break;
        }
        let begun = regular
            .iter()
            .any(|s| !matches!(s.view, ContainerView::Waiting { last_exit: None }));
        if !initializing || begun {
            let mut running = false;
            let mut said = None;
            for shown in regular.iter().rev() {
                match &shown.word {
                    Some(detail) if !detail.is_empty() => said = Some(detail.clone()),
                    _ => running |= shown.ready,
                }
            }
            if let Some(detail) = said {
                word = detail;
            } else if begun {
                phase_word(phase).clone_into(&mut word);
            }
            if word == "Completed" && running {
                "Running".clone_into(&mut word);
            }
        }
        if self.stage == Stage::Terminating {
            "Terminating".clone_into(&mut word);
        }
        word
    }
}

/// Returns the phase in Kubernetes notation.
pub(super) fn phase_word(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
    }
}
