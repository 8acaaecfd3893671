//! A node as pages of a browser. It sees no more of a node than any client of its CRI endpoint does, and
//! changes nothing.
//!
//! | module | what it holds |
//! |---|---|
//! | `server` | what listens: its options, its connections |
//! | `node` | what all requests are about |
//! | `stall` | a connection that is given up when its client reads nothing |
//! | `access` | who may ask: the token, the session, which host and origin a request is for |
//! | `routes`, `query` | from a path to an answer; the words behind the `?` of an address |
//! | `answer`, `page`, `bounded` | answers with their headers; the page's files; texts and lists of a bounded size |
//! | `events` | answers that go on: server-sent events |
//! | `asked` | the endpoint, as its clients see it |
//! | `live` | the one sampler, and who listens to it |
//! | `logs` | log files, followed |
//! | `view` | answers that are given once: a pod, images, networks, traces, settings |
//! | `extras` | what the process knows beside the endpoint |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod access;
mod answer;
mod asked;
mod bounded;
mod events;
mod extras;
mod live;
mod logs;
mod node;
mod page;
mod query;
mod routes;
mod server;
mod stall;
mod view;

pub use access::Token;
pub use extras::Extras;
pub use server::{Web, WebError, WebOptions};
