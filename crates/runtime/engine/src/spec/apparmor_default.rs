//! Loading the default AppArmor profile (`apparmor_default.txt`) into the kernel.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::AppArmor;

/// The profile's name in the kernel.
const NAME: &str = "orlop-default";

impl AppArmor {
    /// Whether AppArmor is enabled in the kernel.
    pub fn is_enabled() -> bool {
        orlop_fs::read_kernel_text("/sys/module/apparmor/parameters/enabled")
            .is_ok_and(|enabled| enabled.starts_with('Y'))
    }

    /// Loads the default profile, replacing one of an older version, and returns its name.
    ///
    /// AppArmor's own parser loads it. Blocks for some hundred milliseconds.
    pub fn load_default() -> io::Result<String> {
        let mut parser = Command::new("apparmor_parser")
            .args(["--skip-cache", "--replace"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot run apparmor_parser: {error}"))
            })?;
        if let Some(mut input) = parser.stdin.take() {
            // If the parser exits early, its error is reported below.
            let _ = input.write_all(text().as_bytes());
        }
        let output = parser.wait_with_output()?;
        if output.status.success() {
            return Ok(NAME.to_owned());
        }
        let problem = String::from_utf8_lossy(&output.stderr);
        let problem = problem.trim().lines().last().unwrap_or("no reason given");
        Err(io::Error::other(format!(
            "apparmor_parser rejected the default profile: {problem}"
        )))
    }
}

fn text() -> String {
    include_str!("apparmor_default.txt").replace("NAME", NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_names_itself_and_denies_what_belongs_to_the_node() {
        let rules: Vec<String> = text()
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert!(
            rules
                .iter()
                .any(|rule| rule.starts_with("profile orlop-default "))
        );
        for rule in [
            "deny mount,",
            "deny network alg,",
            "deny network vsock,",
            "deny /proc/kcore rwklx,",
            "deny /proc/bus/** w,",
            "deny /sys/firmware/** rwklx,",
        ] {
            assert!(rules.iter().any(|own| own == rule), "{rule}");
        }
        assert!(!rules.iter().any(|rule| rule.contains("NAME")));
    }
}
