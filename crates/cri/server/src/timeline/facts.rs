//! Facts about a trace at its start.

use crate::clock;

/// The subject of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pod and its containers.
    Pod,
    /// An image.
    Pull,
}

/// Facts about a trace, known from its start.
#[derive(Debug, Clone)]
pub struct TraceFacts {
    /// The subject.
    pub kind: Kind,
    /// The pod's id, or the image's name.
    pub id: String,
    /// The display name: `NAMESPACE/NAME`, or that of the image.
    pub name: String,
    /// The runtime handler of the pod; empty for a pull.
    pub handler: String,
    /// Nanoseconds since 1970.
    pub started_at: i64,
}

/// Borrowed facts for a new trace.
#[derive(Debug)]
pub(super) struct NewFacts<'a> {
    pub(super) kind: Kind,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) handler: &'a str,
}

impl TraceFacts {
    /// Creates the facts of a trace that starts now.
    pub(super) fn new(facts: &NewFacts<'_>) -> Self {
        let mut new = Self {
            kind: facts.kind,
            id: String::new(),
            name: String::new(),
            handler: String::new(),
            started_at: 0,
        };
        new.take_over(facts);
        new
    }

    /// Returns the trace id. Calls about one pod by clients without tracing share a trace, which can be found by the
    /// start of the pod's id.
    pub(super) fn trace_id(&self) -> [u8; 16] {
        let of_pod = match self.kind {
            Kind::Pod => self.id.get(..32).and_then(orlop_text::hex::decode),
            Kind::Pull => None,
        };
        of_pod.unwrap_or_else(rand::random)
    }

    pub(super) fn take_over(&mut self, facts: &NewFacts<'_>) {
        self.kind = facts.kind;
        for (own, new) in [
            (&mut self.id, facts.id),
            (&mut self.name, facts.name),
            (&mut self.handler, facts.handler),
        ] {
            own.clear();
            own.push_str(new);
        }
        self.started_at = clock::now();
    }
}
