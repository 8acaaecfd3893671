//! Where a daemon's processor time goes, as `orlop debug profile` writes it down.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{VersionRequest, VersionResponse};
use orlop_testkit::{Node, machine, node, process, skip_unless};
use prost::Message;
use tempfile::TempDir;
use tokio::task::JoinSet;

/// A daemon that is asked all the time, and a place for what is written of it.
struct Asked {
    node: Node,
    place: TempDir,
    _callers: JoinSet<()>,
}

impl Asked {
    async fn of(node: Node) -> Self {
        let mut callers = JoinSet::new();
        for _ in 0..4 {
            let cri = node.cri().await;
            callers.spawn(async move {
                let ask = || VersionRequest::default();
                let path = "/runtime.v1.RuntimeService/Version";
                while cri.call::<_, VersionResponse>(path, ask()).await.is_ok() {}
            });
        }
        Self {
            node,
            place: tempfile::tempdir().unwrap(),
            _callers: callers,
        }
    }

    /// Three seconds of it, and what the command said.
    fn profile(&self, file: &str) -> (PathBuf, String) {
        let file = self.place.path().join(file);
        let said = succeeded(&command(&self.node, 3, &file).output().unwrap());
        (file, said)
    }
}

fn command(node: &Node, seconds: u64, file: &Path) -> Command {
    let mut command = Command::new(node::binary());
    command.args(["debug", "profile", "--seconds"]);
    command.arg(seconds.to_string()).arg("--socket");
    command.arg(node.socket()).arg("--output").arg(file);
    command
}

fn succeeded(done: &Output) -> String {
    let said = String::from_utf8(done.stderr.clone()).unwrap();
    assert!(done.status.success(), "{said}");
    said
}

/// What every answer passes through, and who calls it.
const CALLED: &str = "hyper::proto::h2::server::Server";
const CALLER: &str = "tokio::runtime::task";

/// Samples in which both are, the one within the other.
fn seen(folded: &str) -> u64 {
    let has_both = |line: &&str| {
        let caller = line.find(CALLER);
        caller.is_some_and(|caller| line[caller..].contains(CALLED))
    };
    let counts = folded.lines().filter(has_both);
    counts
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// A daemon as it is installed: with the names of its functions, without debug information.
async fn installed(place: &Path) -> Node {
    let program = place.join("orlop");
    let mut strip = Command::new("objcopy");
    strip.arg("--strip-debug").args([&node::binary(), &program]);
    process::run(&mut strip);
    for (name, usual) in [
        ("orlop-keeper", node::keeper_binary()),
        ("orlop-lazy", node::lazy_binary()),
        ("orlop-run", node::run_binary()),
    ] {
        std::os::unix::fs::symlink(usual, place.join(name)).unwrap();
    }
    Node::orlop().programs(place).start().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_names_the_functions_at_work_in_each_of_its_forms() {
    skip_unless!(machine::is_root());
    skip_unless!(machine::program("objcopy").map(drop));
    let programs = tempfile::tempdir().unwrap();
    let node = installed(programs.path()).await;
    // As after an upgrade.
    fs::remove_file(programs.path().join("orlop")).unwrap();
    let asked = Asked::of(node).await;

    let (file, said) = asked.profile("p.folded");
    let folded = fs::read_to_string(&file).unwrap();
    assert!(seen(&folded) > 20, "{said}{folded}");
    assert!(said.contains("duration: 3."), "{said}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(folded.starts_with("orlop"), "threads have names: {folded}");

    let (file, _) = asked.profile("p.svg");
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<?xml") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains(CALLED), "{picture}");
    assert!(picture.contains("&lt;T"), "names are text: {picture}");
    assert!(!picture.contains("<T"), "{picture}");

    let (file, _) = asked.profile("p.pb.gz");
    let packed = fs::read(&file).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut bytes).unwrap();
    pprof_is_sound(&Pprof::decode(&bytes[..]).unwrap());
    asked.node.finish().await;
}

#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    kinds: Vec<Kind>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    texts: Vec<String>,
    #[prost(int64, tag = "10")]
    duration: i64,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Kind {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

/// What pprof checks of a profile, and that a sample leads to a function that must be in it.
fn pprof_is_sound(profile: &Pprof) {
    let text = |number: i64| profile.texts[usize::try_from(number).unwrap()].as_str();
    assert_eq!(text(0), "");
    let kinds = profile.kinds.iter();
    let kinds: Vec<_> = kinds.map(|it| (text(it.kind), text(it.unit))).collect();
    assert_eq!(kinds, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(profile.duration >= 3_000_000_000);
    assert_eq!(profile.period, 10_101_000);
    let mut names = String::new();
    for sample in &profile.samples {
        assert_eq!(sample.values[1], sample.values[0] * profile.period);
        assert!(!sample.locations.is_empty());
        for id in &sample.locations {
            let mut found = profile
                .locations
                .iter()
                .filter(|it| it.id == *id && *id > 0);
            let function = found.next().unwrap().lines[0].function;
            assert_eq!(found.next(), None);
            let function = profile.functions.iter().find(|it| it.id == function);
            names.push_str(text(function.unwrap().name));
            names.push('\n');
        }
    }
    // The innermost comes first.
    assert!(names.find(CALLED) < names.rfind(CALLER), "{names}");
}

/// Waits until the daemon handles the signal of profiles, or no longer.
fn wait_for_handler(node: &Node, wanted: bool) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let line = process::status(node.pid(), "SigCgt:");
        let caught = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        if (caught >> (libc::SIGPROF - 1) & 1 == 1) == wanted {
            break;
        }
        assert!(Instant::now() < until, "handler {wanted}: {line}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn begin(node: &Node, file: &Path) -> Child {
    let mut command = command(node, 600, file);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_for_handler(node, true);
    child
}

#[tokio::test]
async fn one_profile_at_a_time_ends_with_its_client_or_its_daemon() {
    skip_unless!(machine::is_root());
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("p.folded");
    let mut node = Node::orlop().start().await;
    let descriptors = |node: &Node| {
        let open = fs::read_dir(format!("/proc/{}/fd", node.pid()));
        let links = open.unwrap().map(|it| fs::read_link(it.unwrap().path()));
        let links = links.filter_map(Result::ok);
        let links = links.map(|it| it.to_string_lossy().into_owned());
        let of_profiles = |it: &String| it.ends_with("/mem") || it.starts_with("pipe:");
        links.filter(of_profiles).count()
    };
    wait_for_handler(&node, false);
    let before = descriptors(&node);
    let mut first = begin(&node, &file);
    assert_eq!(descriptors(&node), before + 3);
    let second = command(&node, 1, &file).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("another profile is being recorded"), "{said}");

    first.kill().unwrap();
    first.wait().unwrap();
    wait_for_handler(&node, false);
    let until = Instant::now() + Duration::from_secs(10);
    while descriptors(&node) != before {
        assert!(Instant::now() < until, "{} descriptors", descriptors(&node));
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = succeeded(&command(&node, 1, &file).output().unwrap());
    assert!(said.contains("duration: 1."), "{said}");

    let last = begin(&node, &file);
    node.stop();
    let said = succeeded(&last.wait_with_output().unwrap());
    assert!(said.contains("duration: "), "{said}");
    assert!(!node.log().contains("slow call"), "{}", node.log());
    node.start_again().await;
    node.finish().await;
}

#[test]
fn a_profile_without_a_daemon_or_without_end_is_refused() {
    let said = |more: &[&str]| {
        let mut command = Command::new(node::binary());
        command.args(["debug", "profile"]).args(more);
        let done = command.output().unwrap();
        assert!(!done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    let nobody = said(&["--socket", "/nonexistent/o.sock"]);
    assert!(
        nobody.contains("/nonexistent/o.sock: the socket does not exist"),
        "{nobody}"
    );
    for seconds in ["0", "601"] {
        let refused = said(&["--seconds", seconds]);
        assert!(refused.contains("1..=600"), "{refused}");
    }
}
