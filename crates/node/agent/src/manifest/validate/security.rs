//! Rules for security settings.

use super::super::place::Place;

/// The largest user or group id.
const MOST_ID: i64 = i32::MAX as i64;

/// Checks a pod's security settings and its use of host namespaces.
pub(super) fn pod(spec: &Place<'_>) {
    let context = spec.at("securityContext");
    users(&context);
    context.at("fsGroup").within(0, MOST_ID);
    for group in context.at("supplementalGroups").items() {
        group.within(0, MOST_ID);
    }
    context
        .at("supplementalGroupsPolicy")
        .one_of(&["Merge", "Strict"]);
    context
        .at("fsGroupChangePolicy")
        .one_of(&["OnRootMismatch", "Always"]);
    profiles(&context);
    for sysctl in context.at("sysctls").items() {
        let name = sysctl.at("name");
        name.must(|text| {
            let fine = text.split(['.', '/']).all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
            });
            if fine {
                Ok(())
            } else {
                Err("is not the name of a sysctl")
            }
        });
        let dotted = name.text().replace('/', ".");
        if spec.at("hostNetwork").is_true() && dotted.starts_with("net.") {
            name.wrong("is a network sysctl and must not be set when hostNetwork is true");
        }
        let ipc = dotted.starts_with("kernel.sem")
            || dotted.starts_with("kernel.shm")
            || dotted.starts_with("kernel.msg")
            || dotted.starts_with("fs.mqueue.");
        if spec.at("hostIPC").is_true() && ipc {
            name.wrong("is an IPC sysctl and must not be set when hostIPC is true");
        }
    }
    let shared = spec.at("shareProcessNamespace");
    if shared.is_true() && spec.at("hostPID").is_true() {
        shared.wrong("must not be true together with hostPID");
    }
    if spec.at("hostUsers").value == false {
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            if spec.at(field).is_true() {
                spec.at(field)
                    .wrong("must not be true together with hostUsers: false");
            }
        }
    }
}

/// Checks a container's security settings.
pub(super) fn container(spec: &Place<'_>, container: &Place<'_>) {
    let context = container.at("securityContext");
    if !context.is_there() {
        return;
    }
    users(&context);
    profiles(&context);
    context.at("procMount").one_of(&["Default", "Unmasked"]);
    if context.at("procMount").text() == "Unmasked" && spec.at("hostUsers").value != false {
        context
            .at("procMount")
            .wrong("Unmasked needs hostUsers: false");
    }
    let escalation = context.at("allowPrivilegeEscalation");
    if escalation.value == false {
        if context.at("privileged").is_true() {
            escalation.wrong("must not be false for a privileged container");
        }
        let added = context.at("capabilities").at("add").items();
        if added
            .iter()
            .any(|it| matches!(it.text(), "SYS_ADMIN" | "CAP_SYS_ADMIN"))
        {
            escalation.wrong("must not be false for a container with SYS_ADMIN");
        }
    }
    for list in ["add", "drop"] {
        for capability in context.at("capabilities").at(list).items() {
            capability.must(|_| Ok(()));
        }
    }
}

fn users(context: &Place<'_>) {
    for field in ["runAsUser", "runAsGroup"] {
        context.at(field).within(0, MOST_ID);
    }
    if context.at("runAsNonRoot").is_true() && context.at("runAsUser").number() == Some(0) {
        context
            .at("runAsUser")
            .wrong("must not be 0 when runAsNonRoot is true");
    }
}

fn profiles(context: &Place<'_>) {
    for field in ["seccompProfile", "appArmorProfile"] {
        let profile = context.at(field);
        if !profile.is_there() {
            continue;
        }
        profile.at("type").must(|_| Ok(()));
        profile
            .at("type")
            .one_of(&["RuntimeDefault", "Unconfined", "Localhost"]);
        let local = profile.at("localhostProfile");
        match (profile.at("type").text(), local.text()) {
            ("Localhost", "") => local.wrong("is missing"),
            ("Localhost", path) => {
                let leaves = path.starts_with('/') || path.split('/').any(|part| part == "..");
                if field == "seccompProfile" && leaves {
                    local.wrong("must be a path inside the profile directory");
                }
            }
            (_, "") => {}
            _ => local.wrong("is allowed only for type Localhost"),
        }
    }
}
