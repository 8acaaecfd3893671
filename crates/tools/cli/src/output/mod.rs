//! Output of the commands: tables, JSON, YAML, templates, and values for people.

mod document;
mod format;
mod jsonpath;
mod status;
mod stream;
mod style;
mod table;
mod time;
mod units;
mod yaml;

pub(crate) use document::{list, value};
pub(crate) use format::{Format, FormatFlags};
pub(crate) use status::{StatusReport, labels, print_reports};
pub use stream::stdout;
pub(crate) use stream::{forgive_deaf_reader, write_all};
pub(crate) use style::{Style, cut, width};
pub use table::Table;
pub(crate) use time::{ago, full, rfc3339};
pub(crate) use units::{bytes, short_bytes, short_id};
