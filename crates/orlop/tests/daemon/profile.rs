//! Where a daemon's processor time goes, as `orlop debug profile` writes it down.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use orlop_cri::v1::{VersionRequest, VersionResponse};
use orlop_testkit::{Node, machine, node, skip_unless};
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
    fn profile(&self, file: &str, more: &[&Path]) -> (PathBuf, String) {
        let file = self.place.path().join(file);
        let done = self.ask(&file, more);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        (file, said)
    }

    fn ask(&self, file: &Path, more: &[&Path]) -> Output {
        Command::new(node::binary())
            .args(["debug", "profile", "--seconds", "3", "--socket"])
            .arg(self.node.socket())
            .arg("--output")
            .arg(file)
            .args(more)
            .output()
            .unwrap()
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_names_the_functions_at_work_in_each_of_its_forms() {
    skip_unless!(machine::is_root());
    let asked = Asked::of(Node::orlop().start().await).await;

    let (file, said) = asked.profile("p.folded", &[]);
    let folded = fs::read_to_string(&file).unwrap();
    assert!(seen(&folded) > 3, "{said}{folded}");
    assert!(said.contains("samples in 3."), "{said}");
    assert!(
        !said.contains("no symbols for /") || !said.contains("/orlop ("),
        "{said}"
    );
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // What it does in the kernel is in it, behind what asked for it.
    assert!(
        folded.contains("entry_SYSCALL")
            || folded.contains("[kernel]")
            || folded.contains("el0_svc"),
        "{folded}"
    );

    let (file, _) = asked.profile("p.svg", &[]);
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<?xml") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains(CALLED), "{picture}");
    assert!(picture.contains("&lt;T"), "names are text: {picture}");
    assert!(!picture.contains("<T"), "{picture}");

    let (file, _) = asked.profile("p.pb.gz", &[]);
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
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<Mapping>,
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
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    start: u64,
    #[prost(uint64, tag = "3")]
    end: u64,
    #[prost(int64, tag = "6")]
    build_id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
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
    let kinds: Vec<_> = profile
        .kinds
        .iter()
        .map(|it| (text(it.kind), text(it.unit)))
        .collect();
    assert_eq!(kinds, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(profile.duration >= 3_000_000_000);
    assert_eq!(profile.period, 1_000_000_000 / 199);
    let mut names = String::new();
    for sample in &profile.samples {
        assert_eq!(sample.values[1], sample.values[0] * profile.period);
        assert!(!sample.locations.is_empty());
        for id in &sample.locations {
            let location = profile.locations.iter().find(|it| it.id == *id).unwrap();
            if location.mapping != 0 {
                let of = profile.mappings.iter().find(|it| it.id == location.mapping);
                let of = of.unwrap();
                assert!((of.start..of.end).contains(&location.address));
                assert!(text(of.build_id).len() >= 16 || text(of.build_id).is_empty());
            }
            let function = location.lines[0].function;
            let function = profile.functions.iter().find(|it| it.id == function);
            names.push_str(text(function.unwrap().name));
            names.push('\n');
        }
    }
    assert!(names.contains(CALLED), "{names}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stripped_daemon_has_its_names_from_the_file_of_its_build() {
    skip_unless!(machine::is_root());
    skip_unless!(machine::program("objcopy").map(drop));
    // As packages and `make install` lay them out.
    let prefix = tempfile::tempdir().unwrap();
    let bin = prefix.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let program = bin.join("orlop");
    fs::copy(node::binary(), &program).unwrap();
    for (name, usual) in [
        ("orlop-keeper", node::keeper_binary()),
        ("orlop-lazy", node::lazy_binary()),
        ("orlop-run", node::run_binary()),
    ] {
        std::os::unix::fs::symlink(usual, bin.join(name)).unwrap();
    }
    let aside = prefix.path().join("aside.debug");
    let symbols = |args: &[&Path]| {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../contrib/packages/symbols"
        );
        let done = Command::new(script).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    symbols(&[&program, &aside]);
    let place = symbols(&[Path::new("--place"), &program]);
    let asked = Asked::of(Node::orlop().programs(&bin).start().await).await;

    let (file, said) = asked.profile("without.folded", &[]);
    let folded = fs::read_to_string(file).unwrap();
    assert_eq!(seen(&folded), 0, "{folded}");
    assert!(folded.contains(";orlop+0x"), "{folded}");
    orlop_testkit::assert_contains!(said, "no symbols for /", "--symbols");

    let (file, said) = asked.profile("named.folded", &[Path::new("--symbols"), &aside]);
    let folded = fs::read_to_string(file).unwrap();
    assert!(seen(&folded) > 3, "{said}{folded}");

    let other = asked.ask(
        &asked.place.path().join("wrong.folded"),
        &[Path::new("--symbols"), &node::keeper_binary()],
    );
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(
        !other.status.success() && said.contains("build ID is"),
        "{said}"
    );

    let place = prefix.path().join("lib/debug").join(place.trim());
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(&aside, &place).unwrap();
    let (file, said) = asked.profile("found.folded", &[]);
    let folded = fs::read_to_string(file).unwrap();
    assert!(seen(&folded) > 3, "{said}{folded}");
    assert!(!said.contains("/bin/orlop ("), "{said}");
    asked.node.finish().await;
}

#[test]
fn who_may_not_look_is_told_the_way_out() {
    skip_unless!(machine::is_root());
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("orlop");
    fs::copy(node::binary(), &program).unwrap();
    let said = |command: &mut Command, pid: &str| {
        let out = place.path().join("out.folded");
        command.args([
            "debug",
            "profile",
            "--seconds",
            "1",
            "--pid",
            pid,
            "--output",
        ]);
        let done = command.arg(out).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).unwrap()
    };
    let mut other = Command::new("setpriv");
    other
        .args(["--reuid=1000065432", "--clear-groups"])
        .arg(&program);
    let own = std::process::id().to_string();
    let forbidden = said(&mut other, &own);
    assert!(forbidden.contains("run the command as root"), "{forbidden}");
    let none = said(&mut Command::new(&program), "4194303");
    assert!(none.contains("process 4194303 does not exist"), "{none}");
    let nobody = Command::new(&program)
        .args(["debug", "profile", "--socket", "/nonexistent/o.sock"])
        .output()
        .unwrap();
    let said = String::from_utf8(nobody.stderr).unwrap();
    orlop_testkit::assert_contains!(said, "--pid", "/nonexistent/o.sock");
}
