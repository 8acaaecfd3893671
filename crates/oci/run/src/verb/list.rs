//! `list`: lists all containers.

use serde_json::{Value, json};

use super::command::{Call, HELP, Verb};
use crate::args::{FlagsEnd, switch, valued};
use crate::error::{Error, Result, While};
use crate::state::{InOrder, StateDir};

pub(super) const VERB: Verb = Verb {
    name: "list",
    about: "list containers",
    arguments: "",
    flags: &[
        HELP,
        valued(
            "format",
            Some('f'),
            "table|json",
            "set the output format (default: table)",
        ),
        switch("quiet", Some('q'), "display only container IDs"),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let containers = containers(call)?;
    if call.parsed.is_on("quiet")? {
        for container in &containers {
            println!("{}", container["id"].as_str().unwrap_or_default());
        }
        return Ok(0);
    }
    match call.parsed.text("format")?.as_deref() {
        None | Some("table") => print_table(&containers),
        Some("json") if containers.is_empty() => println!("null"),
        Some("json") => {
            let containers: Vec<_> = containers.iter().map(InOrder).collect();
            let text =
                serde_json::to_string(&containers).doing(|| "cannot encode the list".to_owned())?;
            println!("{text}");
        }
        Some(_) => return Err(Error::new("invalid format option")),
    }
    Ok(0)
}

fn containers(call: &Call<'_>) -> Result<Vec<Value>> {
    let root = &call.globals.root;
    let entries = match std::fs::read_dir(root) {
        // A root named by the caller must exist.
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && call.globals.root_is_default =>
        {
            return Ok(Vec::new());
        }
        entries => entries.doing(|| format!("--root {}", root.display()))?,
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut containers = Vec::new();
    for name in names {
        let Ok(dir) = StateDir::of(root, &name) else {
            continue;
        };
        match dir.load() {
            Ok(state) => {
                let mut document = state.document(state.status(&dir));
                document["owner"] = json!(owner(&dir));
                containers.push(document);
            }
            // The container may be removed at this moment.
            Err(error) if dir.exists() => call.log.warn(&format!("load container {name}: {error}")),
            Err(_) => {}
        }
    }
    Ok(containers)
}

/// Returns the owner of a container: the user name, if there is one.
fn owner(dir: &StateDir) -> String {
    use std::os::unix::fs::MetadataExt;
    let Ok(look) = std::fs::metadata(dir.path()) else {
        return String::new();
    };
    let passwd = orlop_fs::read_text("/etc/passwd", 1 << 20).unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == look.uid().to_string()).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("#{}", look.uid()))
}

fn print_table(containers: &[Value]) {
    const COLUMNS: [(&str, &str); 6] = [
        ("ID", "id"),
        ("PID", "pid"),
        ("STATUS", "status"),
        ("BUNDLE", "bundle"),
        ("CREATED", "created"),
        ("OWNER", "owner"),
    ];
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut rows = vec![COLUMNS.map(|(title, _)| title.to_owned())];
    rows.extend(
        containers
            .iter()
            .map(|container| COLUMNS.map(|(_, key)| text(&container[key]))),
    );
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].len())
                .max()
                .unwrap_or(0)
                .max(8)
                + 3
        })
        .collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"));
        println!("{}", cells.collect::<String>().trim_end());
    }
}
