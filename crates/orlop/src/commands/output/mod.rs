//! What the commands print: tables, JSON, YAML, templates, and values for people.

mod document;
mod format;
mod jsonpath;
mod status;
mod stream;
mod style;
mod table;
mod template;
mod time;
mod units;
mod yaml;

pub(super) use document::{list, value};
pub(super) use format::{Format, FormatFlags};
pub(super) use status::{StatusReport, labels, print_reports};
pub(crate) use stream::print;
pub(super) use stream::{stdout, write_all};
pub(super) use style::{Style, cut, width};
pub(super) use table::Table;
pub(super) use time::{ago, full, rfc3339};
pub(super) use units::{bytes, short_bytes, short_id};
