//! A web page that shows a node. It sees only what any client of the CRI endpoint sees, and changes nothing.
//!
//! | module | content |
//! |---|---|
//! | `server` | the server: its options and connections |
//! | `node` | state that all requests share |
//! | `stall` | connections that are closed if their client reads nothing |
//! | `access` | access control: token, session, Host and Origin headers |
//! | `routes`, `query` | routes from paths to handlers; the query string |
//! | `answer`, `page`, `bounded` | responses with their headers; the page's files; size limits of texts and lists |
//! | `events` | server-sent events |
//! | `asked` | calls to the CRI endpoint |
//! | `live` | the sampler and the open pages |
//! | `logs` | streaming of log files |
//! | `view` | single responses: a pod, images, networks, traces, settings |
//! | `extras` | data that the endpoint does not provide |
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
