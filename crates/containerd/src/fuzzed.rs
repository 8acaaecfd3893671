//! Bounded fuzzing of what containerd tells: requests, options of handlers, specifications.

use orlop_testkit::Fuzz;
use orlop_ttrpc::{Writer, any, number, text};

use crate::options::{CheckpointOptions, Options};
use crate::pod::Wanted;
use crate::rootfs::Mount;
use crate::spec::Spec;

#[test]
fn no_request_breaks_the_shim() {
    let mount = Writer::default()
        .text(1, "overlay")
        .text(2, "overlay")
        .text(4, "lowerdir=/a:/b")
        .done();
    let options = Writer::default()
        .number(1, 1)
        .text(6, "/usr/bin/crun")
        .number(9, 1)
        .done();
    let options = Writer::default()
        .text(1, "types.containerd.io/containerd.runc.v1.Options")
        .bytes(2, &options)
        .done();
    let as_text = Writer::default()
        .text(3, "BinaryName = \"/usr/bin/crun\"\n")
        .done();
    let as_text = Writer::default()
        .text(1, "runtimeoptions.v1.Options")
        .bytes(2, &as_text)
        .done();
    let request = |options: &[u8]| {
        Writer::default()
            .text(1, "c1")
            .text(2, "/bundle")
            .message(3, &mount)
            .number(4, 1)
            .text(5, "fifo:///in")
            .message(10, options)
            .done()
    };
    Fuzz::new()
        .example(request(&options))
        .example(request(&as_text))
        .words([
            &[0xff; 9][..],
            &[0x0a, 0xff, 0x7f],
            &[0x1a, 0],
            b"\x52",
            b"runtimeoptions.v1",
        ])
        .run(|input| {
            let given = any(input, 10);
            // A file that the options name is containerd's to choose, and not read here.
            if given
                .as_ref()
                .is_none_or(|any| text(any.value, 2).is_empty())
            {
                let _ = Options::of(given.as_ref());
            }
            let _ = CheckpointOptions::of(given.as_ref());
            assert!(Mount::all_in(input, 3).len() <= input.len());
            let _ = (text(input, 1), number(input, 4));
        });
}

#[test]
fn no_specification_breaks_the_shim() {
    Fuzz::new()
        .example(
            r#"{"annotations": {"io.kubernetes.cri.container-type": "sandbox"}, "hostname": "h",
            "process": {"args": ["/pause"]}, "linux": {"cgroupsPath": "a.slice:cri:c", "sysctl": {"net.a": "1"},
            "namespaces": [{"type": "ipc"}, {"type": "network", "path": "/netns/x"}]}}"#,
        )
        .words(["null", "[", "{", "\"type\": \"user\"", "\\ud800", "1e999", "\"\""])
        .run(|input| {
            if let Ok(spec) = serde_json::from_slice::<Spec>(input) {
                let _ = (spec.group(), spec.is_pause(), Wanted::of(&spec));
            }
        });
}
