//! Which program a runtime is, and how it is executed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use orlop_launch::{Error, ProtectedProgram, RuntimeFault};
use serde_json::json;

use crate::support::{Pod, fake_runtime};

/// A container's whole life, with a hook that looks at the runtime.
async fn run_looking(pod: &mut Pod, script: &str) {
    let mut wish = pod.script("c1", "exit 42");
    let hook = json!({"path": "/bin/sh", "args": ["sh", "-c", script]});
    wish.config["hooks"]["createRuntime"] = json!([hook]);
    pod.run(&wish).await;
    assert_eq!(pod.exit_of("c1").await.code, 42);
    pod.delete("c1").await;
}

#[tokio::test]
async fn a_runtime_is_found_by_its_name() {
    let mut pod = Pod::new().await;
    pod.runtime.program = "runc".into();
    pod.run_script("c1", "exit 42").await;
    assert_eq!(pod.exit_of("c1").await.code, 42);
    pod.runtime.program = "no-such-runtime".into();
    let error = pod.create(&pod.script("c2", "true")).await.unwrap_err();
    let Error::Runtime(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.fault, RuntimeFault::Missing);
    let expected = "executing no-such-runtime: No such file or directory";
    assert!(error.detail.starts_with(expected), "{}", error.detail);
    pod.runtime.program = "runc".into();
}

#[tokio::test]
async fn a_runtime_that_protects_itself_is_executed_protected() {
    let mut pod = Pod::new().await;
    pod.runtime.program = orlop_testkit::node::run_binary();
    let seen = pod.dir.path().join("seen");
    let script = format!("tr '\\0' '\\n' < /proc/$PPID/environ > {}", seen.display());
    for protects_itself in [false, true] {
        pod.runtime.protects_itself = protects_itself;
        run_looking(&mut pod, &script).await;
        let environment = fs::read_to_string(&seen).unwrap();
        assert!(environment.contains("PATH="), "{environment}");
        let went_on_in_a_copy = environment.contains("_PROTECTED=");
        assert_eq!(went_on_in_a_copy, !protects_itself, "{environment}");
    }
}

#[tokio::test]
async fn the_program_that_is_executed_protected_is_the_one_that_is_there() {
    let own = orlop_testkit::node::run_binary();
    let mut copies = Vec::new();
    for few in [true, false] {
        let mut pod = Pod::with(|dir, spec| {
            let (program, newer) = (dir.join("program"), dir.join("newer"));
            copies = vec![program.clone(), newer.clone()];
            fs::copy(&own, &program).unwrap();
            fs::copy(&own, newer).unwrap();
            spec.runtime = Some(Arc::new(ProtectedProgram::open(&program).unwrap()));
            if !few {
                spec.few_mounts = None;
            }
        })
        .await;
        pod.runtime.program.clone_from(&copies[0]);
        pod.runtime.protects_itself = true;
        let seen = pod.dir.path().join("seen");
        let script = format!(
            "stat -L -c %i /proc/$PPID/exe > {0}; tr '\\0' '\\n' < /proc/$PPID/environ >> {0}",
            seen.display()
        );
        let inodes = copies.iter().map(|it| fs::metadata(it).unwrap().ino());
        for (number, inode) in inodes.collect::<Vec<_>>().into_iter().enumerate() {
            if number == 1 {
                // As a package is upgraded while pods run.
                fs::rename(&copies[1], &copies[0]).unwrap();
            }
            run_looking(&mut pod, &script).await;
            let said = fs::read_to_string(&seen).unwrap();
            let (executed, environment) = said.split_once('\n').unwrap();
            assert_eq!(executed, inode.to_string());
            assert!(!environment.contains("_PROTECTED="), "{environment}");
        }
    }
}

#[tokio::test]
async fn a_script_in_place_of_a_runtime_that_protects_itself_is_executed() {
    let mut pod = Pod::new().await;
    let program = orlop_testkit::node::run_binary();
    let script = format!("exec {} \"$@\"", program.display());
    let wrapper = fake_runtime(pod.dir.path(), "wrapper", &script);
    pod.runtime.program = wrapper.program;
    pod.runtime.protects_itself = true;
    pod.run_script("c1", "exit 42").await;
    assert_eq!(pod.exit_of("c1").await.code, 42);
}
