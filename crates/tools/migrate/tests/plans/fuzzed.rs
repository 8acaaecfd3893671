//! Bounded fuzzing of what others left on disk.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use orlop_migrate::{CriDockerd, Machine, Plan, containerd_plan, crio_plan, fuzzing};
use orlop_testkit::Fuzz;

const PAGE: usize = 4096;
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A database with an image, as bbolt would write it: buckets within their entries.
fn database() -> Vec<u8> {
    let digest = format!("sha256:{ZEROS}");
    let target = inline(&[(0, b"digest", digest.as_bytes())]);
    let image = inline(&[(1, b"target", &target)]);
    let images = inline(&[(1, b"docker.io/library/busybox:1", &image)]);
    let namespace = inline(&[(1, b"images", &images)]);
    let version = inline(&[(1, b"k8s.io", &namespace)]);
    let mut file = vec![0; 2 * PAGE];
    for page in 0..2 {
        let meta = &mut file[page * PAGE + 16..];
        for (at, word) in [(0, 0xED0C_DAED_u32), (4, 2), (8, PAGE as u32)] {
            meta[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        meta[16] = 3;
        meta[48] = page as u8;
    }
    file.resize(3 * PAGE, 0);
    let mut root = leaf(&[(1, b"v1", &version)]);
    root.resize(PAGE, 0);
    file.extend(root);
    fuzzing::mend(&mut file);
    file
}

fn inline(entries: &[(u32, &[u8], &[u8])]) -> Vec<u8> {
    [vec![0; 16], leaf(entries)].concat()
}

fn leaf(entries: &[(u32, &[u8], &[u8])]) -> Vec<u8> {
    let mut page = vec![0; 16];
    page[8] = 2;
    page[10] = entries.len() as u8;
    let mut behind = entries.len() * 16;
    let mut data = Vec::new();
    for (at, (flags, key, value)) in entries.iter().enumerate() {
        for word in [
            *flags,
            (behind - at * 16) as u32,
            key.len() as u32,
            value.len() as u32,
        ] {
            page.extend(word.to_le_bytes());
        }
        behind += key.len() + value.len();
        data.extend([*key, *value].concat());
    }
    page.extend(data);
    page
}

#[test]
fn no_database_breaks_the_reader() {
    let database = database();
    assert_eq!(fuzzing::bolt(&database), 1, "the example has an image");
    Fuzz::new()
        .example(&database)
        .words([
            &[0xff; 4][..],
            &[0; 8],
            &[1, 0],
            &[2, 0],
            &3_u64.to_le_bytes(),
        ])
        .repair(|input, _| fuzzing::mend(input))
        .run(|input| {
            fuzzing::bolt(input);
        });
}

#[test]
fn a_page_below_itself_ends_the_reading() {
    let mut database = database();
    let root = 3 * PAGE;
    // A branch that leads to itself.
    database[root + 8..root + 12].copy_from_slice(&[1, 0, 1, 0]);
    database[root + 16 + 8..root + 16 + 16].copy_from_slice(&3_u64.to_le_bytes());
    assert_eq!(fuzzing::bolt(&database), 0);
}

fn compressed(lines: &str) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(lines.as_bytes()).expect("compress");
    out.finish().expect("compress")
}

#[test]
fn no_records_of_layers_break_the_reader() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("a"), "abcd").expect("write");
    let plain = "{\"type\":2,\"payload\":\"YWJj\",\"position\":0}\n\
                 {\"type\":1,\"name\":\"a\",\"size\":4,\"payload\":\"AAAA\",\"position\":1}\n\
                 {\"type\":1,\"name_raw\":\"YQ==\",\"size\":4,\"payload\":null,\"position\":2}\n";
    assert_eq!(fuzzing::tar_split(&compressed(plain), dir.path()), Some(11));
    let outside = "{\"type\":1,\"name\":\"../../../../etc/passwd\",\"size\":1}\n";
    assert_eq!(fuzzing::tar_split(&compressed(outside), dir.path()), None);
    Fuzz::new()
        .example(plain)
        .words([
            "\"size\":",
            "18446744073709551615",
            "-1",
            "\n",
            "\"type\":1",
            "..",
            "/",
            "null",
        ])
        .run(|input| {
            fuzzing::tar_split(&compressed(&String::from_utf8_lossy(input)), dir.path());
        });
    Fuzz::new().example(compressed(plain)).run(|input| {
        fuzzing::tar_split(input, dir.path());
    });
}

#[test]
fn no_configuration_breaks_the_readers() {
    fn none(_: &str) -> Option<PathBuf> {
        None
    }
    let machine = Machine {
        find: none,
        target: Path::new("/etc/orlop"),
        root: Path::new("/nonexistent"),
    };
    fn docker_plan(file: &Path, machine: Machine<'_>) -> orlop_migrate::Result<Plan> {
        orlop_migrate::docker_plan(file, None, machine)
    }
    /// Whatever an engine was told.
    fn cri_dockerd_plan(file: &Path, machine: Machine<'_>) -> orlop_migrate::Result<Plan> {
        let flags = CriDockerd::given(file.to_str().expect("text"))?;
        orlop_migrate::docker_plan(Path::new("/nonexistent"), Some(&flags), machine)
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("theirs");
    Fuzz::new()
        .example("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\n")
        .example("version = 3\nimports = ['x*']\n[plugins.'io.containerd.cri.v1.images'.registry.configs.'a'.auth]\nusername = 'u'\n")
        .example("[crio.runtime]\ndefault_sysctls = ['a=b']\n[crio.runtime.runtimes.crun]\nruntime_path = '/x'\n")
        .example("{\"runtimes\": {\"x\": {\"path\": \"y\", \"runtimeArgs\": [\"z\"]}}, \"exec-opts\": [\"native.cgroupdriver=systemd\"]}")
        .example("[Service]\nExecStart=\nExecStart=/x --cni-bin-dir=/a,/b \\\n --streaming-bind-addr '127.0.0.1:1' --log-level=info\n")
        .words(["[", "]", "{", "}", "'", "\"", "= ", "= 1\n", "= []\n", "= {}\n", "*", "/", "\n"])
        .run(|input| {
            std::fs::write(&file, input).expect("write");
            for plan in [containerd_plan, crio_plan, docker_plan, cri_dockerd_plan] {
                if let Ok(plan) = plan(&file, machine) {
                    let text = plan.render("fuzzed");
                    assert!(text.parse::<toml::Table>().is_ok(), "{text}");
                }
            }
        });
}
