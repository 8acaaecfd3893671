//! Writes the new configuration after it was checked. An existing file is never overwritten.

use std::fs::{DirBuilder, remove_file};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use orlop_cli::say;
use orlop_fs::{Outlives, write_new_file};
use orlop_migrate::Plan;

use crate::config::{Flags, Location, load};

pub(super) fn write(file: &Path, plan: &Plan, from: &str) -> anyhow::Result<()> {
    let dir = file.parent();
    let dir = dir.ok_or_else(|| anyhow!("--write needs a file, not {}", file.display()))?;
    let beside = plan.files.keys().map(|path| dir.join(path));
    for there in std::iter::once(file.to_owned()).chain(beside) {
        if there.symlink_metadata().is_ok() {
            bail!(
                "{} already exists and is not overwritten; move it, or give another file",
                there.display()
            );
        }
    }
    make_dir(dir)?;
    let text = plan.render(from);
    check(dir, &text)?;
    for (path, text) in &plan.files {
        let path = dir.join(path);
        make_dir(path.parent().unwrap_or(dir))?;
        // The files may contain passwords.
        put(&path, 0o600, text)?;
    }
    put(file, 0o644, &text)?;
    say!(
        "wrote {}; check it with `orlop config check --config {0}`",
        file.display()
    );
    Ok(())
}

/// Loads the new configuration to check it.
fn check(dir: &Path, text: &str) -> anyhow::Result<()> {
    let draft = dir.join(format!(".migrate-{}.toml", std::process::id()));
    put(&draft, 0o600, text)?;
    let loaded = load(&Location::new(Some(draft.clone())), &Flags::default());
    let _ = remove_file(&draft);
    if let Err(problems) = loaded {
        for problem in &problems.0 {
            say!("{problem}");
        }
        bail!(
            "the migrated configuration is not valid; fix the settings above in the configuration \
             of the other runtime, or remove them from a copy (--config)"
        );
    }
    Ok(())
}

fn put(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    match write_new_file(path, mode, Outlives::PowerCut, text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} already exists and is not overwritten; move it, or give another file",
            path.display()
        ),
        written => written.with_context(|| format!("cannot write {}", path.display())),
    }
}

fn make_dir(dir: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.with_context(|| format!("cannot create {}", dir.display()))
}
