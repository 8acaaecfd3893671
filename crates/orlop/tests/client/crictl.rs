//! The binary under the name `crictl` does what crictl 1.36 does: the same lines on an endpoint
//! that isn't ours (Debian's containerd), compared with what crictl was seen to answer. Ids,
//! times and the like are masked.
//!
//! `ORLOP_BLESS=1 ORLOP_CRICTL=/path/to/crictl` records the answers of a crictl anew.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orlop_testkit::{ContainerSpec, Node, machine, node, skip_unless};
use regex_lite::Regex;

use crate::world::World;

/// The lines, in their order: the last ones take away what the others look at. `{MAIN}` and the
/// like stand for what the test made.
const LINES: &str = include_str!("crictl/lines.txt");

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/crictl/recorded.txt")
}

#[tokio::test]
async fn scripts_for_crictl_notice_no_difference() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(machine::has_program("containerd"));
    let directory = tempfile::tempdir().unwrap();
    let bless = std::env::var_os("ORLOP_BLESS").is_some();
    let program = if let Some(path) = std::env::var_os("ORLOP_CRICTL") {
        PathBuf::from(path)
    } else {
        assert!(
            !bless,
            "only a crictl's answers are recorded: set ORLOP_CRICTL"
        );
        let link = directory.path().join("crictl");
        symlink(node::binary(), &link).unwrap();
        link
    };
    let world = World::start(Node::containerd()).await;
    let (cri, node, image) = (&world.cri, &world.node, &world.image);
    let pod = node.pod("shown");
    let pod_id = cri.run_pod(&pod).await.unwrap();
    let main = ContainerSpec::new("main", image)
        .shell("echo one; echo two >&2; trap 'exit 3' TERM; while :; do sleep 0.1; done");
    let main = cri.run(&pod_id, &pod, &main).await.unwrap();
    let done = ContainerSpec::new("done", image).shell("echo last; exit 4");
    let done = cri.run(&pod_id, &pod, &done).await.unwrap();
    cri.wait_exited(&done).await;
    let known = [
        ("{POD}", pod_id.as_str()),
        ("{MAIN}", main.as_str()),
        ("{DONE}", done.as_str()),
        ("{IMAGE}", image.as_str()),
    ];
    let masks = Masks::new(&[
        (image.rsplit_once(':').unwrap().0.to_owned(), "<REPOSITORY>"),
        (directory.path().display().to_string(), "<DIRECTORY>"),
        (node.id().to_owned(), "<NODE>"),
    ]);
    let mut seen = String::new();
    for line in LINES.lines().filter(|line| !line.is_empty()) {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for word in &mut words {
            for (name, value) in known {
                *word = word.replace(name, value);
            }
        }
        let output = Command::new(&program)
            .args([
                "--config",
                "/dev/null",
                "--timeout",
                "20s",
                "--runtime-endpoint",
            ])
            .arg(format!("unix://{}", node.socket().display()))
            .args(&words)
            .env_remove("CONTAINER_RUNTIME_ENDPOINT")
            .env_remove("CRI_CONFIG_FILE")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = output.status.code().unwrap_or(-1);
        let _ = writeln!(seen, "$ crictl {line}\n= {code}");
        for (mark, bytes) in [('>', &output.stdout), ('!', &output.stderr)] {
            for line in masks.lines(&String::from_utf8_lossy(bytes), mark == '!') {
                let _ = writeln!(seen, "{mark} {line}");
            }
        }
    }
    world.finish().await;
    if bless {
        fs::write(recorded(), &seen).unwrap();
        return;
    }
    let wanted = fs::read_to_string(recorded()).unwrap();
    assert!(
        wanted == seen,
        "not what crictl answered:\n{}",
        differences(&wanted, &seen)
    );
}

/// The commands that were answered otherwise, both ways.
fn differences(wanted: &str, seen: &str) -> String {
    let mut text = String::new();
    let blocks = |text: &str| -> Vec<String> {
        text.split("$ crictl ").skip(1).map(str::to_owned).collect()
    };
    for (wanted, seen) in blocks(wanted).iter().zip(&blocks(seen)) {
        if wanted != seen {
            let _ = writeln!(text, "--- crictl {wanted}--- we {seen}");
        }
    }
    text
}

/// What differs from run to run, and what says the same in other words.
struct Masks {
    /// The log of crictl's library says again what crictl says.
    log: Regex,
    own: Vec<(String, &'static str)>,
    patterns: Vec<(Regex, &'static str)>,
}

impl Masks {
    fn new(own: &[(String, &'static str)]) -> Self {
        let pattern = |text: &str, mask| (Regex::new(text).unwrap(), mask);
        Self {
            log: Regex::new(r"^[EIW]\d{4} ").unwrap(),
            own: own.to_vec(),
            patterns: vec![
                pattern(r"sha256:[0-9a-f]{64}", "<DIGEST>"),
                pattern(r"\b[0-9a-f]{64}\b", "<ID>"),
                pattern(r"\b[0-9a-f]{13}\b", "<SHORT>"),
                pattern(
                    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                    "<UID>",
                ),
                pattern(
                    r"20\d\d-\d\d-\d\d[T ][0-9:.]+( ?[+-]\d\d:?\d\d)?( UTC|Z)?",
                    "<TIME>",
                ),
                pattern(r"\b1[0-9]{18}\b", "<NANOSECONDS>"),
                pattern(r"\b10\.\d+\.\d+\.\d+\b", "<IP>"),
                pattern(r"(Less than a second|About a minute|\d+ \w+) ago", "<AGO>"),
                pattern(r"(Disk|Inodes)\[0\]: .*", "$1[0]: <COUNT>"),
                pattern(r"/[^ ]*/(containerd\.grpc|io\.containerd)[^ ,]*", "<PLACE>"),
                // Where the pod's logs are.
                pattern(r#"/[^ "]*<NODE>[^ "]*/"#, "<PATH>/"),
            ],
        }
    }

    fn lines(&self, text: &str, is_error: bool) -> Vec<String> {
        if Regex::new(r"(?i)usage:\s+crictl").unwrap().is_match(text) {
            return vec!["<HELP>".to_owned()];
        }
        if !is_error {
            return text.lines().map(|line| self.line(line)).collect();
        }
        // Of errors what the runtime said counts, and that there was one.
        let own = text.lines().filter(|line| !self.log.is_match(line));
        let mut errors: Vec<String> = own
            .map(|line| match line.find("rpc error:") {
                Some(at) => self.line(&line[at..]),
                None => "<WORDS>".to_owned(),
            })
            .collect();
        errors.dedup();
        errors
    }

    fn line(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (text, mask) in &self.own {
            line = line.replace(text, mask);
        }
        for (pattern, mask) in &self.patterns {
            line = pattern.replace_all(&line, *mask).into_owned();
        }
        // Masks have other widths than what they stand for.
        Regex::new(" +")
            .unwrap()
            .replace_all(&line, " ")
            .trim_end()
            .to_owned()
    }
}
