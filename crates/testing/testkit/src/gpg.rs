//! OpenPGP keys and signatures, made with GnuPG.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::Scratch;

/// A GnuPG home with keys without a passphrase.
#[derive(Debug)]
pub struct Gpg {
    home: PathBuf,
    /// Time that GnuPG is made to believe.
    at: Option<String>,
    _scratch: Scratch,
}

impl Gpg {
    /// Creates an empty home.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        // The path must be short, as the agent has a socket there.
        let home = scratch.run().join("gpg");
        std::fs::create_dir(&home).expect("make GnuPG's directory");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&home, mode).expect("close GnuPG's directory");
        Self {
            home,
            at: None,
            _scratch: scratch,
        }
    }

    /// Returns its `$GNUPGHOME`.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Makes GnuPG believe a time such as `20200131T000000`, or the real one.
    pub fn set_time(&mut self, at: Option<&str>) {
        self.at = at.map(|at| format!("{at}!"));
    }

    /// Creates a key with a user, a kind (`ed25519`, `rsa2048`…), a usage (`sign`, `cert`) and a lifetime (`never`,
    /// `1y`…). Returns its fingerprint.
    pub fn make_key(&self, user: &str, kind: &str, usage: &str, expires: &str) -> String {
        self.run(&["--quick-generate-key", user, kind, usage, expires], b"");
        self.fingerprints(user).remove(0)
    }

    /// Adds a subkey and returns its fingerprint.
    pub fn add_subkey(&self, key: &str, kind: &str, usage: &str, expires: &str) -> String {
        self.run(&["--quick-add-key", key, kind, usage, expires], b"");
        self.fingerprints(key).pop().expect("a subkey")
    }

    /// Returns the fingerprints of a key and its subkeys.
    fn fingerprints(&self, key: &str) -> Vec<String> {
        let told = self.run(&["--with-colons", "--list-keys", key], b"");
        let told = String::from_utf8(told).expect("a list of keys");
        let lines = told.lines().filter(|line| line.starts_with("fpr:"));
        lines
            .filter_map(|line| line.split(':').nth(9).map(str::to_owned))
            .collect()
    }

    /// Returns the public key in binary form.
    pub fn export(&self, key: &str) -> Vec<u8> {
        self.run(&["--export", key], b"")
    }

    /// Returns the public key as text.
    pub fn export_text(&self, key: &str) -> Vec<u8> {
        self.run(&["--armor", "--export", key], b"")
    }

    /// Revokes a key.
    pub fn revoke(&self, key: &str) {
        let file = self.home.join(format!("openpgp-revocs.d/{key}.rev"));
        let text = std::fs::read_to_string(file).expect("read the revocation");
        // GnuPG adds a colon, so that it is not used by mistake.
        self.run(&["--import"], text.replace(":-----", "-----").as_bytes());
    }

    /// Revokes the first subkey of a key.
    pub fn revoke_subkey(&self, key: &str) {
        let words = "key 1\nrevkey\ny\n0\n\ny\nsave\n";
        self.run(&["--command-fd", "0", "--edit-key", key], words.as_bytes());
    }

    /// Signs a message with a key and further options of GnuPG.
    pub fn sign(&self, key: &str, options: &[&str], content: &[u8]) -> Vec<u8> {
        let user = format!("{key}!");
        let options = [&["--local-user", &user], options, &["--sign"]].concat();
        self.run(&options, content)
    }

    /// Signs an image by digest, for a name.
    pub fn sign_image(&self, key: &str, digest: &str, reference: &str) -> Vec<u8> {
        self.sign(key, &[], &image_payload(digest, reference))
    }

    /// Returns whether GnuPG accepts a signed message with its keys.
    pub fn accepts(&self, message: &[u8]) -> bool {
        let (output, _) = self.output(&["--status-fd", "2", "--decrypt"], message);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success() && told.contains("] GOODSIG ")
    }

    /// Runs GnuPG, which must succeed.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Vec<u8> {
        let (output, words) = self.output(arguments, input);
        assert!(
            output.status.success(),
            "{words}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    fn output<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        input: &[u8],
    ) -> (std::process::Output, String) {
        let mut command = Command::new("gpg");
        command
            .env("GNUPGHOME", &self.home)
            .args(["--batch", "--yes", "--quiet", "--no-tty"])
            .args(["--pinentry-mode", "loopback"])
            .args(["--passphrase", ""])
            .args(["--trust-model", "always"]);
        if let Some(at) = &self.at {
            command.args(["--faked-system-time", at]);
        }
        command.args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start gpg");
        // The input always fits into a pipe.
        let mut stdin = child.stdin.take().expect("gpg's input");
        drop(stdin.write_all(input));
        drop(stdin);
        let output = child.wait_with_output().expect("wait for gpg");
        (output, format!("{command:?}"))
    }
}

/// Returns the signed payload of an image, in the "simple signing" format.
pub fn image_payload(digest: &str, reference: &str) -> Vec<u8> {
    let payload = json!({
        "critical": {
            "type": "atomic container signature",
            "image": { "docker-manifest-digest": digest },
            "identity": { "docker-reference": reference },
        },
        "optional": { "creator": "tests", "timestamp": 1_700_000_000 },
    });
    payload.to_string().into_bytes()
}

impl Default for Gpg {
    fn default() -> Self {
        Self::new()
    }
}

/// Stops the agent, which would live on.
impl Drop for Gpg {
    fn drop(&mut self) {
        let mut end = Command::new("gpgconf");
        end.env("GNUPGHOME", &self.home).args(["--kill", "all"]);
        if let Err(error) = end.status() {
            eprintln!("testkit: gpgconf --kill all: {error}");
        }
    }
}
