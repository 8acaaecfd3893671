//! Tests of devices of the Container Device Interface.

use std::fs;

use orlop_oci_types::{DeviceKind, Linux, Process, User};

use super::*;

const GPU: &str = r#"{
  "cdiVersion": "0.6.0", "kind": "vendor.com/gpu",
  "containerEdits": {"env": ["COMMON=1"], "mounts": [
    {"hostPath": "/lib/gpu", "containerPath": "/usr/lib/gpu", "options": ["ro", "rbind"]}]},
  "devices": [
    {"name": "0", "containerEdits": {
      "env": ["INDEX=0"],
      "deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null", "permissions": "rw"}],
      "hooks": [{"hookName": "createContainer", "path": "/bin/gpu-hook", "args": ["gpu-hook", "x"]}],
      "additionalGids": [0, 44]}},
    {"name": "1", "containerEdits": {"env": ["INDEX=1"]}}
  ]}"#;

const GPU_YAML: &str = "\
cdiVersion: '1.0.0'
kind: vendor.com/gpu
devices:
- name: '2'
  containerEdits:
    deviceNodes:
    - {path: /dev/gpu2, type: c, major: 195, minor: 2, uid: 7}
";

struct Scene {
    _dir: tempfile::TempDir,
    policy: Policy,
}

impl Scene {
    /// Creates directories with these files, each given as `directory/name`.
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cdi_dirs = vec![dir.path().join("static"), dir.path().join("dynamic")];
        Self {
            _dir: dir,
            policy: Policy {
                cdi_dirs,
                ..Policy::default()
            },
        }
    }

    fn apply(&self, names: &[&str]) -> Result<Spec, Error> {
        let cdi_devices = names
            .iter()
            .map(|name| v1::CdiDevice {
                name: (*name).into(),
            })
            .collect();
        let config = v1::ContainerConfig {
            cdi_devices,
            ..Default::default()
        };
        let mut spec = Spec {
            process: Some(Process {
                env: vec!["INDEX=old".into(), "KEPT=1".into()],
                user: User {
                    uid: 33,
                    gid: 0,
                    ..User::default()
                },
                ..Process::default()
            }),
            linux: Some(Linux::default()),
            ..Spec::default()
        };
        apply(&config, &self.policy, &mut spec)?;
        Ok(spec)
    }
}

#[test]
fn a_device_brings_all_it_needs() {
    let scene = Scene::new(&[("static/gpu.json", GPU)]);
    let spec = scene.apply(&["vendor.com/gpu=0"]).unwrap();
    let (process, linux) = (spec.process.unwrap(), spec.linux.unwrap());
    assert_eq!(process.env, ["KEPT=1", "COMMON=1", "INDEX=0"]);
    assert_eq!(process.user.additional_gids, [44]);
    let device = &linux.devices[0];
    assert_eq!(
        (
            device.path.as_str(),
            device.kind,
            device.major,
            device.minor
        ),
        ("/dev/gpu0", DeviceKind::Char, 1, 3)
    );
    assert_eq!((device.uid, device.gid), (Some(33), None));
    assert_eq!(linux.resources.unwrap().devices[0].access, "rw");
    assert_eq!(spec.mounts[0].destination, "/usr/lib/gpu");
    assert_eq!(
        spec.hooks.unwrap().create_container[0].args,
        ["gpu-hook", "x"]
    );
}

#[test]
fn what_devices_of_a_file_share_is_done_once() {
    let scene = Scene::new(&[("static/gpu.json", GPU)]);
    let spec = scene
        .apply(&["vendor.com/gpu=1", "vendor.com/gpu=0", "vendor.com/gpu=1"])
        .unwrap();
    assert_eq!(spec.mounts.len(), 1);
    assert_eq!(spec.process.unwrap().env, ["KEPT=1", "COMMON=1", "INDEX=0"]);
}

#[test]
fn yaml_is_read_too() {
    let scene = Scene::new(&[("dynamic/gpu.yaml", GPU_YAML), ("dynamic/README.txt", "x")]);
    let device = scene
        .apply(&["vendor.com/gpu=2"])
        .unwrap()
        .linux
        .unwrap()
        .devices
        .remove(0);
    assert_eq!((device.major, device.minor, device.uid), (195, 2, Some(7)));
}

#[test]
fn a_later_directory_goes_before_an_earlier() {
    let newer = GPU.replace("INDEX=1", "INDEX=new");
    let scene = Scene::new(&[("static/a.json", GPU), ("dynamic/a.json", &newer)]);
    let env = scene
        .apply(&["vendor.com/gpu=1"])
        .unwrap()
        .process
        .unwrap()
        .env;
    assert!(env.contains(&"INDEX=new".to_owned()), "{env:?}");
}

#[test]
fn two_descriptions_of_a_device_are_a_conflict_that_names_them() {
    let scene = Scene::new(&[("static/a.json", GPU), ("static/b.json", GPU)]);
    let error = scene.apply(&["vendor.com/gpu=0"]).unwrap_err();
    assert!(matches!(error, Error::FailedPrecondition { .. }));
    let text = error.to_string();
    assert!(text.contains("a.json") && text.contains("b.json"), "{text}");
}

#[test]
fn a_missing_device_is_named_along_with_what_could_not_be_read() {
    let unknown = GPU.replace("hooks", "spells");
    let scene = Scene::new(&[("static/bad.json", "{"), ("static/newer.json", &unknown)]);
    let error = scene.apply(&["vendor.com/gpu=0"]).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    let text = error.to_string();
    for part in ["vendor.com/gpu=0", "bad.json", "newer.json", "spells"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(matches!(
        scene.apply(&["gpu0"]),
        Err(Error::InvalidArgument { .. })
    ));
}

#[test]
fn annotations_name_devices_as_well() {
    let scene = Scene::new(&[("static/gpu.json", GPU)]);
    let annotations = HashMap::from([
        (
            "cdi.k8s.io/plugin".to_owned(),
            "vendor.com/gpu=0,vendor.com/gpu=1".to_owned(),
        ),
        ("other".to_owned(), "x".to_owned()),
    ]);
    let device = v1::CdiDevice {
        name: "vendor.com/gpu=1".into(),
    };
    let names = ["vendor.com/gpu=1", "vendor.com/gpu=0"];
    assert_eq!(requested(&[device], &annotations), names);
    let config = v1::ContainerConfig {
        annotations,
        ..Default::default()
    };
    let mut spec = Spec::default();
    apply(&config, &scene.policy, &mut spec).unwrap();
    assert_eq!(spec.linux.unwrap().devices.len(), 1);
}
