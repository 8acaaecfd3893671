//! Output of the configuration: the commented default file, the effective values and the reference document.

use std::fmt::Write;

use super::load::Loaded;
use super::problem::Origin;
use super::schema::{Config, RUNTIMES, Runtime};
use super::section::{Applies, Key, Section, dotted};

/// Placeholder for the name that the administrator gives a runtime.
const RUNTIME_NAME: &str = "name";

/// Returns a file with every key at its default, commented out and documented.
pub(crate) fn default_file() -> String {
    let mut out = String::from(
        "# Configuration of orlop, with the default value of each key.\n# To change a key, remove \
         the `#` before it. Drop-ins in config.toml.d/*.toml take precedence\n# over this file. \
         Check changes with `orlop config check`; apply them with `orlop config reload`.\n",
    );
    for_each_table(&Config::default(), |table, section| {
        out.push('\n');
        comment(&mut out, section.doc());
        match table {
            "" => {}
            table if table.starts_with(RUNTIMES) => {
                let _ = writeln!(out, "#[{table}]");
            }
            table => {
                let _ = writeln!(out, "[{table}]");
            }
        }
        for key in section.keys() {
            out.push('\n');
            comment(&mut out, key.doc);
            let _ = writeln!(out, "#{} = {}", key.name, key.value);
        }
    });
    out
}

/// Returns the effective values, each with its origin.
pub(crate) fn effective(loaded: &Loaded) -> String {
    values(&loaded.config, |key| {
        let origin = loaded.origins.get(key)?;
        (!matches!(origin, Origin::Default)).then(|| origin.to_string())
    })
}

/// Returns the values of a configuration.
pub(crate) fn in_force(config: &Config) -> String {
    values(config, |_| None)
}

fn values(config: &Config, origin: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut write = |table: &str, section: &dyn Section| {
        if !table.is_empty() {
            let _ = writeln!(out, "\n[{table}]");
        }
        for key in section.keys() {
            let _ = write!(out, "{} = {}", key.name, key.value);
            let _ = match origin(&dotted(table, key.name)) {
                None => writeln!(out),
                Some(origin) => writeln!(out, "  # {origin}"),
            };
        }
    };
    for (table, section) in config.sections() {
        write(table, section);
    }
    for (name, runtime) in &config.runtimes {
        write(&format!("{RUNTIMES}.{}", bare_or_quoted(name)), runtime);
    }
    out
}

/// Returns the content of `docs/reference/configuration.md`.
pub(crate) fn reference() -> String {
    let mut out = String::from(include_str!("reference_head.md"));
    for_each_table(&Config::default(), |table, section| {
        let _ = match table {
            "" => writeln!(out, "\n## Top-level keys\n"),
            table => writeln!(out, "\n## `[{table}]`\n"),
        };
        let _ = writeln!(out, "{}\n", paragraph(section.doc()));
        out.push_str("| key | type | default | description |\n|---|---|---|---|\n");
        for Key {
            name,
            doc,
            kind,
            value,
            applies,
            flag,
        } in section.keys()
        {
            let live = match applies {
                Applies::live => " *Applied at a reload.*",
                Applies::restart => "",
            };
            let flag = flag.map_or_else(String::new, |flag| format!(" Flag: `--{}`.", flag.name));
            let _ = writeln!(
                out,
                "| `{name}` | {kind} | `{value}` | {}{flag}{live} |",
                paragraph(doc)
            );
        }
    });
    out
}

fn for_each_table(config: &Config, mut table: impl FnMut(&str, &dyn Section)) {
    for (name, section) in config.sections() {
        table(name, section);
    }
    table(&dotted(RUNTIMES, RUNTIME_NAME), &Runtime::default());
}

fn comment(out: &mut String, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(out, "#{line}");
    }
}

fn paragraph(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

fn bare_or_quoted(name: &str) -> String {
    if name.contains('.') {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}
