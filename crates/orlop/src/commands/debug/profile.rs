//! `orlop debug profile`: CPU profile of the daemon.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use orlop_cli::say;

use super::ask;
use crate::profile::{Format, MOST_SECONDS, Profile, write};
use crate::serve::DaemonArgs;

/// Time limit for the daemon to resolve function names.
const PATIENCE: Duration = Duration::from_mins(1);

/// Arguments of `debug profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    daemon: DaemonArgs,

    /// Duration of the recording in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    seconds: u64,

    /// File to write; - is standard output [default: orlop-profile.pb.gz, .svg or .folded]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Output format [default: by the extension of FILE, else pprof]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

impl ProfileArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let format = self.format();
        let default = || PathBuf::from(default_file(format));
        let to = self.output.clone().unwrap_or_else(default);
        let is_stdout = [Path::new("-"), Path::new("/dev/stdout")].contains(&to.as_path());
        if is_stdout && matches!(format, Format::Pprof) && io::stdout().is_terminal() {
            bail!(
                "cannot write the pprof format to a terminal; give a file with --output, or use \
                 --format folded"
            );
        }
        let limit = Duration::from_secs(self.seconds) + PATIENCE;
        let profile = ask(&self.daemon, "Profile", self.seconds.to_string(), limit)?;
        let profile: Profile = serde_json::from_value(profile)?;
        profile.check()?;
        let written = write(&profile, format);
        if is_stdout {
            io::stdout().lock().write_all(&written)?;
        } else {
            orlop_fs::write_output(&to, 0o600, &written)
                .with_context(|| format!("cannot write {}", to.display()))?;
        }
        tell(&profile, (!is_stdout).then_some(&to));
        Ok(())
    }

    fn format(&self) -> Format {
        let end = self.output.as_deref().and_then(Path::extension);
        self.format
            .unwrap_or(match end.and_then(|end| end.to_str()) {
                Some("svg") => Format::Flamegraph,
                Some("folded" | "txt") => Format::Folded,
                _ => Format::Pprof,
            })
    }
}

fn default_file(format: Format) -> &'static str {
    match format {
        Format::Pprof => "orlop-profile.pb.gz",
        Format::Flamegraph => "orlop-profile.svg",
        Format::Folded => "orlop-profile.folded",
    }
}

/// Reports where the profile is and what is missing in it.
fn tell(profile: &Profile, to: Option<&PathBuf>) {
    let place = to.map_or_else(String::new, |to| format!(", in {}", to.display()));
    say!(
        "samples: {}, duration: {:.1} s, CPU time: {:.2} s{place}",
        profile.samples(),
        profile.took().as_secs_f64(),
        profile.busy().as_secs_f64(),
    );
    if profile.samples() == 0 {
        say!("the daemon was idle; run `orlop debug tasks` to see what it waits for");
    }
    if profile.lost > 0 {
        say!("lost samples: {}", profile.lost);
    }
}
