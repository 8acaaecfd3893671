//! A registry's bad days: a proxy that fails as told, asks for logins and counts requests.

mod body;
mod door;
mod fault;
mod server;
#[cfg(test)]
mod tests;

pub use door::{Door, TokenRules};
pub use fault::{Fault, Rule};
pub use server::{FaultProxy, Seen};
