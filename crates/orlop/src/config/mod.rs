//! Configuration of the daemon.
//!
//! [`schema`] declares every key once, with its type, default, documentation and flag. The parser, the flags of the
//! daemon, `config default`, `config show`, `docs/reference/configuration.md` and the comparison at a reload are
//! derived from it.

mod change;
mod earlier;
#[cfg(test)]
mod every_key_tests;
mod flags;
mod load;
mod problem;
mod render;
mod schema;
mod section;
mod suggest;
#[cfg(test)]
mod tests;
mod validate;
pub(crate) mod values;

pub(crate) use change::{Changes, changes, reloaded};
pub(crate) use earlier::{EARLIER, Migrated, migrate};
pub(crate) use flags::Flags;
#[cfg(feature = "node")]
pub(crate) use flags::argument;
pub(crate) use load::{Location, load, read};
pub(crate) use render::{default_file, effective, in_force, reference};
pub(crate) use schema::{Config, Grpc, Images, Log, Metrics, RUNTIMES, Runtime, Traces};
