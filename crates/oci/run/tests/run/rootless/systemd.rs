//! Cgroups that a user's own systemd makes.

use std::path::PathBuf;

use orlop_testkit::{assert_contains, machine, skip_unless};
use serde_json::{Value, json};

use crate::rootless::session::{OTHERS, Session, sessions_work};
use crate::rootless::user::{out, refusal};

/// What is seen of a container where limits are, and of its unit; `$id` is its name.
const SEEN: &str = "
    seen() {
        pid=$(run state $id | sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p')
        place=$(sed s/^0::// /proc/$pid/cgroup)
        echo $place
        (cd /sys/fs/cgroup$place && echo $(cat memory.max pids.max cgroup.controllers))
        systemctl --user show -p MemoryMax -p TasksMax -p Delegate -p Slice ${place##*/} | sort
    }";

impl Session {
    /// A bundle with limits of memory and processes, and the beginning of a script about it.
    fn limited(&self, change: impl FnOnce(&mut Value)) -> (String, PathBuf, String) {
        let mut config = self.user.config(&["sleep", "600"]);
        config["linux"]["resources"] = json!({
            "memory": { "limit": 64 << 20 },
            "pids": { "limit": 20 },
        });
        change(&mut config);
        let (id, bundle) = self.user.bundle(&config);
        let script = format!("id={id}; cd {}; {SEEN}\n", bundle.display());
        (id, bundle, script)
    }
}

/// From the first command to the last, from a login's own scope: as runc does it.
#[test]
fn limits_are_kept_by_the_users_systemd_from_create_to_delete() {
    skip_unless!(sessions_work());
    let session = Session::new();
    let (id, _, script) = session.limited(|config| {
        config["linux"]["cgroupsPath"] = "user.slice:kit:one".into();
    });
    let script = format!(
        "{script}
         sed s/^0::// /proc/self/cgroup >&2
         run create $id > created 2>&1 || {{ cat created >&2; exit 1; }}
         seen
         run start $id
         run update --memory 83886080 --pids-limit 40 $id
         seen
         run pause $id
         run list | grep -o paused
         run resume $id
         run ps --format json $id | tr -d 0-9
         run kill $id KILL
         while ! run state $id | grep -q stopped; do sleep 0.1; done
         run delete $id
         left $id; left kit-one"
    );
    let said = session.says(&script);
    assert!(said.err.contains("/session-"), "{said:?}");
    let said = out(said);
    let id_of = session.user.id;
    let place = format!(
        "/user.slice/user-{id_of}.slice/{}/user.slice/kit-one.scope",
        session.manager()
    );
    let lines: Vec<_> = said.lines().collect();
    for (at, (memory, pids)) in [(0, (67_108_864, 20)), (6, (83_886_080, 40))] {
        assert_eq!(lines[at], place, "{said}");
        let kernels = format!("{memory} {pids} ");
        assert!(lines[at + 1].starts_with(&kernels), "{said}");
        let of_systemd = [
            "Delegate=yes",
            &format!("MemoryMax={memory}"),
            "Slice=user.slice",
            &format!("TasksMax={pids}"),
        ];
        assert_eq!(lines[at + 2..at + 6], of_systemd, "{said}");
    }
    assert_eq!(lines[12..], ["paused", "[]"], "{said}");
    // The judge: the same, word for word.
    let runc = machine::program("runc").unwrap_or_else(|e| panic!("{e}"));
    let theirs = out(session.says_with(runc.to_str().unwrap(), &script));
    assert_eq!(said, theirs, "{id}");
}

/// Another process is one of the container's, with its limits; in a cgroup below, if that is said.
#[test]
fn what_is_executed_by_a_login_is_in_the_containers_cgroup() {
    skip_unless!(sessions_work());
    let session = Session::new();
    let (id, _, script) = session.limited(|config| {
        config["linux"]["resources"]["pids"]["limit"] = 4.into();
    });
    let said = out(session.says(&format!(
        "{script}
         run run --detach $id > made 2>&1 || {{ cat made >&2; exit 1; }}
         seen > seen; head -n 2 seen
         run exec $id cat /proc/self/cgroup
         mkdir /sys/fs/cgroup$place/below
         run exec --cgroup below $id cat /proc/self/cgroup
         run exec $id sh -c 'for i in 1 2 3 4 5 6; do sleep 60 & done' 2>&1 | grep -o -m 1 fork
         run delete --force $id
         left $id"
    )));
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0].ends_with(&format!("/user.slice/orlop-run-{id}.scope")),
        "{said}"
    );
    assert!(lines[1].starts_with("67108864 4 "), "{said}");
    assert_eq!(lines[2..], ["0::/", "0::/below", "fork"], "{said}");
}

/// What cannot be made leaves nothing, and what is too large is ended.
#[test]
fn a_users_limits_hold_and_failures_leave_nothing() {
    skip_unless!(sessions_work());
    let session = Session::new();
    // As many as there may be are the container's: who makes them is not counted.
    let (alone, _, first) = session.limited(|config| {
        config["process"]["args"] = json!(["cat", "/proc/self/cgroup"]);
        config["linux"]["resources"]["pids"]["limit"] = 2.into();
    });
    let (large, _, second) = session.limited(|config| {
        let args = [
            "busybox",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=64M",
            "count=1",
        ];
        config["process"]["args"] = json!(args);
        config["linux"]["resources"]["memory"] = json!({ "limit": 16 << 20, "swap": 16 << 20 });
    });
    let (wrong, _, third) = session.limited(|config| {
        config["process"]["args"] = json!(["nothing-of-that-name"]);
    });
    let said = out(session.says(&format!(
        "{first} run run $id
         {second} code=0; run run $id > large 2>&1 || code=$?; echo $code
         {third} run run $id && echo made
         left {alone}; left {large}; left {wrong}"
    )));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["0::/", "137"], "{said}");
}

/// A service of the user's may have processes made where a login may not, root of a user namespace is the user
/// to systemd, and ids of others are mapped as the node's files allow it.
#[test]
fn a_users_systemd_serves_services_and_roots_of_user_namespaces() {
    skip_unless!(sessions_work());
    let session = Session::new();
    let number = session.user.id;
    let (_, _, first) = session.limited(|config| {
        config["process"]["args"] = json!(["sh", "-c", "cat /proc/self/cgroup /proc/self/uid_map"]);
    });
    let (_, _, second) = session.limited(|config| {
        config["process"]["args"] = json!(["cat", "/proc/self/cgroup"]);
        for kind in ["uid", "gid"] {
            config["linux"][format!("{kind}Mappings")] =
                json!([{ "containerID": 0, "hostID": 0, "size": 1 }]);
        }
    });
    let (_, bundle, _) = session.limited(|config| {
        config["process"]["args"] = json!(["sh", "-c", "cat /proc/self/cgroup /proc/self/uid_map"]);
        for kind in ["uid", "gid"] {
            config["linux"][format!("{kind}Mappings")] = json!([
                { "containerID": 0, "hostID": number, "size": 1 },
                { "containerID": 1, "hostID": session.others(), "size": OTHERS },
            ]);
        }
    });
    let runtime = session.user.runtime.display();
    let said = out(session.says(&format!(
        "{first} systemd-run --user --quiet --pipe --wait --collect --working-directory=$PWD \
            {runtime} --systemd-cgroup run $id
         {second}
         for from in '' \"env XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR/none XDG=$XDG_RUNTIME_DIR\"; do
            unshare --user --map-root-user $from {runtime} --root states --systemd-cgroup run $id
         done
         cd {}; run run several",
        bundle.display(),
    )));
    let words: Vec<_> = said.split_whitespace().collect();
    let (number, others) = (number.to_string(), session.others().to_string());
    let service = ["0::/", "0", &number, "1"];
    let roots = ["0::/", "0::/"];
    let several = ["0::/", "0", &number, "1", "1", &others, "1000"];
    let all = [&service[..], &roots, &several].concat();
    assert_eq!(words, all, "{said}");
}

/// Where it is not known where the user's systemd is, that is said, and nothing in the working directory is asked.
#[test]
fn without_a_place_for_the_users_systemd_it_is_said() {
    skip_unless!(sessions_work());
    let session = Session::new();
    let (_, bundle, script) = session.limited(|config| {
        config["process"]["args"] = json!(["true"]);
    });
    let runtime = session.user.runtime.display();
    let said = refusal(session.says(&format!(
        "{script}
         unset XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
         mkdir -p systemd && ln -sf /run/user/{}/systemd/private systemd/private
         {runtime} --root {}/states --systemd-cgroup run $id",
        session.user.id,
        bundle.display(),
    )));
    assert_contains!(
        said,
        "unable to communicate with systemd",
        "XDG_RUNTIME_DIR"
    );
}
