//! Complete responses in the formats for programs.

use std::io::Write;

use orlop_cri_api::json;
use serde_json::Value;

use super::format::Format;
use super::yaml;

/// Prints a message; `false` if the format is for people and the caller must print it.
pub(crate) fn list<M: prost::Name>(
    out: &mut impl Write,
    message: &M,
    format: &Format,
) -> anyhow::Result<bool> {
    match format {
        Format::Table => return Ok(false),
        // Keeps the field order of the CRI, which a `Value` would lose.
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &json::view(message))?;
            writeln!(out)?;
        }
        Format::Yaml | Format::Template(_) | Format::JsonPath(_) => {
            value(out, &json::to_value(message), format)?;
        }
    }
    Ok(true)
}

/// Prints a value with its keys in alphabetical order. The table format is printed as JSON.
pub(crate) fn value(out: &mut impl Write, value: &Value, format: &Format) -> anyhow::Result<()> {
    match format {
        Format::Json | Format::Table => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)?;
        }
        Format::Yaml => writeln!(out, "{}", yaml::to_string(value))?,
        Format::JsonPath(path) => writeln!(out, "{}", path.render(value))?,
        Format::Template(template) => writeln!(out, "{}", template.render(value)?)?,
    }
    Ok(())
}
