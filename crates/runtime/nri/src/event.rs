//! Sets of events.

use crate::v1alpha1::Event;

/// A set of events that a plugin subscribes to, with one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events(u32);

impl Events {
    /// All events.
    pub const ALL: Self = Self((1 << (Event::Last as u32 - 1)) - 1);

    /// No event.
    pub const NONE: Self = Self(0);

    /// Parses a subscription; `None` if it has unknown bits. Zero subscribes to all events.
    pub fn of_subscription(bits: i32) -> Option<Self> {
        let bits = bits.cast_unsigned();
        match bits {
            0 => Some(Self::ALL),
            _ if bits & !Self::ALL.0 != 0 => None,
            _ => Some(Self(bits)),
        }
    }

    /// Returns the set with one more event.
    #[must_use]
    pub fn and(self, event: Event) -> Self {
        Self(self.0 | Self::bit(event))
    }

    /// Whether the set contains an event.
    pub fn has(self, event: Event) -> bool {
        self.0 & Self::bit(event) != 0
    }

    /// Returns the set as the bits of a subscription.
    pub fn bits(self) -> i32 {
        self.0.cast_signed()
    }

    /// Returns the union of two sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn from_raw(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) fn raw(self) -> u32 {
        self.0
    }

    fn bit(event: Event) -> u32 {
        (event as u32).checked_sub(1).map_or(0, |shift| 1 << shift)
    }
}

/// Returns the name of the call for an event.
pub(crate) fn call_of(event: Event) -> &'static str {
    match event {
        Event::RunPodSandbox => "RunPodSandbox",
        Event::StopPodSandbox => "StopPodSandbox",
        Event::RemovePodSandbox => "RemovePodSandbox",
        Event::CreateContainer => "CreateContainer",
        Event::PostCreateContainer => "PostCreateContainer",
        Event::StartContainer => "StartContainer",
        Event::PostStartContainer => "PostStartContainer",
        Event::UpdateContainer => "UpdateContainer",
        Event::PostUpdateContainer => "PostUpdateContainer",
        Event::StopContainer => "StopContainer",
        Event::RemoveContainer => "RemoveContainer",
        Event::UpdatePodSandbox => "UpdatePodSandbox",
        Event::PostUpdatePodSandbox => "PostUpdatePodSandbox",
        Event::ValidateContainerAdjustment => "ValidateContainerAdjustment",
        Event::Unknown | Event::Last => "StateChange",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn subscriptions_are_bits_by_the_events_numbers() {
        let events = Events::NONE
            .and(Event::RunPodSandbox)
            .and(Event::ValidateContainerAdjustment);
        assert_eq!(events.bits(), 1 | 1 << 13);
        assert!(events.has(Event::RunPodSandbox) && !events.has(Event::StopPodSandbox));
        assert_eq!(Events::ALL.bits(), 0x3fff);
        assert_eq!(Events::of_subscription(0), Some(Events::ALL));
        assert_eq!(Events::of_subscription(1 << 14), None);
        assert_eq!(Events::of_subscription(-1), None);
    }
}
