//! Templates in the language of Go's text/template, over JSON values: what `--template` takes, and
//! `network.conf_template`.
//!
//! * `lex`: from text to words
//! * `parse`: from words to a tree
//! * `eval`: the tree applied to a value, within bounds
//! * `functions`, `printf`, `shown`: what can be called, and how values are shown

mod eval;
mod functions;
mod lex;
mod parse;
mod printf;
mod shown;
mod template;

pub use template::{Template, TemplateError};
