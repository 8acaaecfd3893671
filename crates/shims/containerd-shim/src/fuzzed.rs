//! Bounded fuzzing of containerd's input: requests, handler options, specifications.

use orlop_containerd_api::task::CreateTaskRequest;
use orlop_containerd_api::types::Mount;
use orlop_containerd_api::{Any, Message, runc, runtimeoptions};
use orlop_testkit::Fuzz;

use crate::options::{CheckpointOptions, Options};
use crate::pod::Wanted;
use crate::spec::Spec;

#[test]
fn no_request_breaks_the_shim() {
    let options = Any::pack(&runc::Options {
        no_pivot_root: true,
        binary_name: "/usr/bin/crun".into(),
        systemd_cgroup: true,
        ..runc::Options::default()
    });
    let as_text = Any::pack(&runtimeoptions::Options {
        config_body: b"BinaryName = \"/usr/bin/crun\"\n".into(),
        ..runtimeoptions::Options::default()
    });
    let request = |options: Any| {
        let request = CreateTaskRequest {
            id: "c1".into(),
            bundle: "/bundle".into(),
            rootfs: vec![Mount {
                r#type: "overlay".into(),
                source: "overlay".into(),
                options: vec!["lowerdir=/a:/b".into()],
                ..Mount::default()
            }],
            terminal: true,
            stdin: "fifo:///in".into(),
            options: Some(options),
            ..CreateTaskRequest::default()
        };
        request.encode_to_vec()
    };
    Fuzz::new()
        .example(request(options))
        .example(request(as_text))
        .words([
            &[0xff; 9][..],
            &[0x0a, 0xff, 0x7f],
            &[0x1a, 0],
            b"\x52",
            b"runtimeoptions.v1",
        ])
        .run(|input| {
            let Ok(request) = CreateTaskRequest::decode(input) else {
                return;
            };
            assert!(request.rootfs.len() <= input.len());
            // A configuration file that the options name is chosen by containerd and not read here.
            let given = request.options.as_ref();
            let text = given.and_then(Any::unpack::<runtimeoptions::Options>);
            if text.is_none_or(|text| text.config_path.is_empty()) {
                let _ = Options::of(given);
            }
            let _ = CheckpointOptions::of(given);
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
