//! AppArmor: the profile that was asked for is the one in force.

use orlop_cri_api::v1::SecurityProfile;
use orlop_cri_api::v1::security_profile::ProfileType;
use orlop_testkit::ContainerSpec;

use crate::world::ours;

fn has_apparmor() -> Result<(), String> {
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    if enabled.is_ok_and(|text| text.starts_with('Y')) {
        Ok(())
    } else {
        Err("this kernel has no AppArmor; `make test-vm` has one".to_owned())
    }
}

fn confined(spec: ContainerSpec, kind: ProfileType, name: &str) -> ContainerSpec {
    spec.with(|config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        security.apparmor = Some(SecurityProfile {
            profile_type: kind.into(),
            localhost_ref: name.to_owned(),
        });
    })
}

#[tokio::test]
async fn the_profile_that_was_asked_for_is_in_force() {
    orlop_testkit::skip_unless!(has_apparmor());
    let world = ours!();
    let script = "cat /proc/self/attr/current; echo 1 > /sys/kernel/mm/ksm/run && echo written; \
                  cat /proc/kcore > /dev/null && echo read; true";
    let spec = || world.container("main").shell(script);
    for (name, spec, expected) in [
        ("unsaid", spec(), "orlop-default (enforce)\n"),
        (
            "default",
            confined(spec(), ProfileType::RuntimeDefault, ""),
            "orlop-default (enforce)\n",
        ),
    ] {
        let (_, output) = world.output(name, &spec).await;
        assert_eq!(output, expected, "{name}");
    }
    let free = confined(spec(), ProfileType::Unconfined, "");
    let (_, output) = world.output("free", &free).await;
    assert!(output.starts_with("unconfined\n"), "{output}");
    let of_node = confined(spec(), ProfileType::Localhost, "localhost/orlop-default");
    let (_, output) = world.output("of-node", &of_node).await;
    assert!(output.starts_with("orlop-default (enforce)\n"), "{output}");
    // Commands are confined as their container is.
    let spec = world.container("main").shell("sleep 600");
    let running = world.run_container("exec", &spec).await;
    let current = ["cat", "/proc/self/attr/current"];
    let told = world.cri.exec(&running.id, &current).await.expect("exec");
    assert_eq!(told.stdout, b"orlop-default (enforce)\n");
    world.finish().await;
}

#[tokio::test]
async fn a_profile_that_cannot_be_given_is_an_error() {
    let world = ours!();
    let pod = world.node.pod("missing");
    let pod_id = world.run_pod(&pod).await;
    let spec = confined(
        world.container("main"),
        ProfileType::Localhost,
        "localhost/no-such-profile",
    );
    let refused = world.cri.create(&pod_id, &pod, &spec).await;
    let refused = refused.expect_err("there is no such profile");
    let reason = if has_apparmor().is_ok() {
        "no-such-profile"
    } else {
        "AppArmor is not available"
    };
    assert!(refused.message().contains(reason), "{refused}");
    world.finish().await;
}
