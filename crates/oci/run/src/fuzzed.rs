//! Bounded fuzzing of `config.json` parsing, without the host.

use orlop_oci_types::Seccomp;
use orlop_seccomp::Program;
use orlop_testkit::Fuzz;

use crate::bundle::{Bundle, CONFIG};
use crate::json;
use crate::plan::options::MountOptions;
use crate::plan::{HookSteps, ProcessPlan};

const EXAMPLE: &str = r#"{"ociVersion": "1.2.0", "hostname": "h", "root": {"path": "rootfs", "readonly": true},
    "process": {"terminal": false, "cwd": "/", "args": ["sh", "-c", "true"], "env": ["PATH=/bin", "A=b"],
        "user": {"uid": 0, "gid": 0, "umask": 18, "additionalGids": [5]}, "noNewPrivileges": true,
        "capabilities": {"bounding": ["CAP_KILL"], "effective": ["CAP_KILL"], "ambient": ["CAP_CHOWN"]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}], "oomScoreAdj": 100,
        "scheduler": {"policy": "SCHED_OTHER", "nice": 1}, "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "execCPUAffinity": {"initial": "0-1", "final": "0"}},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec"]},
        {"destination": "/data", "source": "/tmp", "options": ["rbind", "ro", "rprivate", "idmap=uids=0-1-2"]}],
    "hooks": {"createContainer": [{"path": "/bin/true", "args": ["true"], "timeout": 1}],
        "poststop": [{"path": "/bin/true", "env": ["A=b"]}]},
    "annotations": {"a": "b"},
    "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "uts"}, {"type": "network", "path": "/n"}],
        "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 10}], "maskedPaths": ["/proc/kcore"],
        "sysctl": {"net.ipv4.ip_forward": "1"}, "rootfsPropagation": "rslave",
        "memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0-3"}, "personality": {"domain": "LINUX32"},
        "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 438}],
        "resources": {"devices": [{"allow": false, "access": "rwm"}], "memory": {"limit": 1000000}, "pids": {"limit": 9}},
        "seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [{"names": ["read", "clone"], "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]}]}}}"#;

#[test]
fn no_configuration_breaks_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let open = |text: &[u8]| {
        std::fs::write(dir.path().join(CONFIG), text).unwrap();
        Bundle::open(dir.path())
    };
    understand(&open(EXAMPLE.as_bytes()).unwrap());
    Fuzz::new()
        .example(EXAMPLE)
        .words([
            "null",
            "[]",
            "{}",
            "\"\"",
            "-1",
            "1e999",
            "18446744073709551615",
            "\\u0000",
            "\\ud800",
        ])
        .words([
            "\"type\":",
            "\"time\"",
            "\"user\"",
            "\"idmap\"",
            "[[[[[[",
            "4294967295",
            "0-4294967295",
            "\"../..\"",
        ])
        .run(|input| {
            if let Ok(bundle) = open(input) {
                understand(&bundle);
            }
        });
}

fn understand(bundle: &Bundle) {
    let (linux, process) = (bundle.linux().unwrap(), bundle.process().unwrap());
    let _ = (bundle.rootfs(), bundle.takes_mounts());
    if let Ok(mut plan) = ProcessPlan::new(process, &mut Vec::new()) {
        let _ = plan.with_linux(linux);
    }
    for mount in &bundle.spec.mounts {
        let options = MountOptions::parse(&mount.options);
        let _ = (options.of_bind(false), options.of_bind(true));
    }
    let hooks = bundle.spec.hooks.clone().unwrap_or_default();
    for hooks in [&hooks.create_container, &hooks.start_container] {
        let _ = HookSteps::new(hooks, "fuzzed");
    }
    let profile = linux.seccomp.as_ref().map(|it| it.text().as_bytes());
    if let Some(Ok(profile)) = profile.map(json::parse::<Seccomp>) {
        let _ = Program::unknown_names(&profile);
        if let Ok(program) = Program::compile(&profile) {
            assert!(Program::from_bytes(&program.to_bytes()).is_ok());
        }
    }
}
