//! Bounded fuzzing of the engine's responses and of files of other programs.

use orlop_testkit::Fuzz;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::checkpoint::Checkpoint;
use crate::docker::Frames;
use crate::docker::types::{Container, ContainerSummary, Event, Image, ImageSummary, Info};

/// Frames are complete and independent of the chunk boundaries, or the stream is rejected.
#[test]
fn no_stream_of_an_engine_breaks_the_reader() {
    let piece = |source: u8, text: &[u8]| {
        let head = [source, 0, 0, 0, 0, 0, 0, text.len() as u8];
        [&head[..], text].concat()
    };
    Fuzz::new()
        .example([piece(1, b"out"), piece(2, b"err"), piece(1, b"")].concat())
        .example(piece(3, b"something went wrong"))
        .words([
            &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff][..],
            &[2, 0, 0, 0, 0, 0, 0, 2],
            &[9],
        ])
        .run(|input| {
            for terminal in [false, true] {
                let whole = pieces(terminal, input, input.len().max(1));
                assert_eq!(whole, pieces(terminal, input, 3), "cut otherwise");
            }
        });
}

/// All bytes per source.
fn pieces(terminal: bool, bytes: &[u8], step: usize) -> Vec<(String, Vec<u8>)> {
    let mut frames = Frames::new(terminal);
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for part in bytes.chunks(step) {
        frames.feed(part);
        while let Ok(Some((source, text))) = frames.next() {
            let source = format!("{source:?}");
            match found.last_mut() {
                Some((last, all)) if *last == source => all.extend(&text),
                _ => found.push((source, text.to_vec())),
            }
        }
    }
    found
}

/// JSON responses are parsed or rejected.
#[test]
fn no_answer_of_an_engine_breaks_the_reader() {
    let container = json!({
        "Id": "0123", "Name": "/k8s_main_pod_ns_uid_0", "Created": "2020-01-01T00:00:00.123456789Z",
        "State": {"Status": "running", "Running": true, "Pid": 4711, "ExitCode": 0, "OOMKilled": false,
                  "StartedAt": "2020-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"},
        "Config": {"Image": "busybox", "Labels": {"a": "b"}, "Tty": false, "Env": ["A=b"]},
        "HostConfig": {"NetworkMode": "none", "Memory": 0, "CpuShares": 2},
        "Mounts": [{"Source": "/a", "Destination": "/b", "RW": true}],
        "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}},
    });
    let list =
        json!([{"Id": "0123", "Names": ["/x"], "Labels": null, "State": "exited", "Created": 1}]);
    let image = json!({"Id": "sha256:00", "RepoTags": ["a:b"], "RepoDigests": null, "Size": 1,
                       "Config": {"User": "1:2", "Volumes": {"/v": {}}}});
    let event = json!({"Type": "container", "Action": "die", "Actor": {"ID": "0", "Attributes": {"exitCode": "1"}},
                       "time": 1, "timeNano": 2});
    let info = json!({"ID": "x", "Driver": "overlay2", "CgroupDriver": "cgroupfs", "Runtimes": {"runc": {"path": "runc"}}});
    fn read<T: DeserializeOwned>(input: &[u8]) {
        let _ = serde_json::from_slice::<T>(input);
    }
    Fuzz::new()
        .example(container.to_string())
        .example(list.to_string())
        .example(image.to_string())
        .example(event.to_string())
        .example(info.to_string())
        .words([
            "null",
            "{}",
            "[]",
            "-1",
            "1e999",
            "18446744073709551616",
            "\"\"",
            "\\ud800",
            "[[[[",
        ])
        .run(|input| {
            read::<Container>(input);
            read::<Vec<ContainerSummary>>(input);
            read::<Image>(input);
            read::<Vec<ImageSummary>>(input);
            read::<Event>(input);
            read::<Info>(input);
            let _ = crate::clock::parse(&String::from_utf8_lossy(input));
        });
}

/// A sandbox checkpoint is read as it was written, or rejected.
#[test]
fn no_sandbox_checkpoint_breaks_the_reader() {
    let good = json!({
        "version": "v1", "name": "a", "namespace": "b",
        "data": {"port_mappings": [{"protocol": "tcp", "container_port": 80, "host_port": 8080}],
                 "host_network": false},
        "checksum": 0,
    });
    Fuzz::new()
        .example(good.to_string())
        .words(["null", "{}", "[]", "-1", "1e999", "\"checksum\":", "[[[["])
        .run(|input| {
            let _ = Checkpoint::read(input);
        });
}
