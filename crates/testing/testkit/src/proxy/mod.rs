//! A registry proxy that injects faults, requires logins and counts requests.

mod bandwidth;
mod body;
mod door;
mod fault;
mod fetched;
mod range;
#[cfg(test)]
mod range_tests;
mod server;
#[cfg(test)]
mod tests;

pub use door::{Door, TokenRules};
pub use fault::{Fault, Rule};
pub use fetched::Fetched;
pub use server::{FaultProxy, Seen};
