//! What is known about a trace when it starts.

use crate::clock;

/// What a trace is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pod and its containers.
    Pod,
    /// An image.
    Pull,
}

/// What is known of a trace from its beginning.
#[derive(Debug, Clone)]
pub struct TraceFacts {
    /// What it is about.
    pub kind: Kind,
    /// The pod's id, or the image's name.
    pub id: String,
    /// The name for people: `NAMESPACE/NAME` or the image's.
    pub name: String,
    /// The runtime that runs the pod; empty for a pull.
    pub handler: String,
    /// Nanoseconds since 1970.
    pub started_at: i64,
}

/// The same, of something that there is a trace to be made of.
#[derive(Debug)]
pub(super) struct NewFacts<'a> {
    pub(super) kind: Kind,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) handler: &'a str,
}

impl TraceFacts {
    /// Of what begins now.
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

    /// Calls for one pod by clients that trace nothing make one trace, to be found by the beginning of
    /// the pod's id.
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
