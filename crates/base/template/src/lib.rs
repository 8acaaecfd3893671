//! Templates in the language of Go's text/template, over JSON values: used by `--template` and `network.conf_template`.
//!
//! * `lex`: from text to words
//! * `parse`: from words to a tree
//! * `eval`: evaluates the tree with a value, within limits
//! * `functions`, `printf`, `shown`: the functions, and the formatting of values

mod display;
mod eval;
mod functions;
mod lex;
mod parse;
mod printf;
mod template;

pub use template::{Template, TemplateError};
