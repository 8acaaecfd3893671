//! Tests with command lines from units and users.

use std::fs;

use super::*;

const UNIT: &str = "\
[Service]
Type=notify
ExecStart=/usr/bin/cri-dockerd --container-runtime-endpoint fd:// --network-plugin=cni \\
    --cni-bin-dir=/opt/cni/bin,/usr/lib/cni --cni-conf-dir /srv/net.d \\
    --pod-infra-container-image='k8s.gcr.io/pause:3.9' --ipv6-dual-stack --hairpin-mode=hairpin-veth \\
    --network-plugin-mtu=1400 --streaming-bind-addr=127.0.0.1:10010 $MORE
ExecReload=/bin/kill -s HUP $MAINPID
";

fn planned(flags: &CriDockerd) -> Plan {
    let mut plan = Plan::default();
    take(&mut plan, flags);
    plan
}

fn lost(plan: &Plan) -> Vec<(usize, &str)> {
    let lost = plan.notes.iter();
    let lost = lost.filter(|note| matches!(note.outcome, Outcome::Lost(_)));
    lost.map(|note| (note.line, note.key.as_str())).collect()
}

#[test]
fn a_unit_s_command_line_becomes_keys() {
    let plan = planned(&CriDockerd::of_text(Path::new("cri.service"), UNIT));
    let written: toml::Table = plan.render("docker").parse().unwrap();
    let expected: toml::Table = r#"
[network]
bin_dirs = ["/opt/cni/bin", "/usr/lib/cni"]
conf_dir = "/srv/net.d"
[streaming]
address = "127.0.0.1"
port = 10010
"#
    .parse()
    .unwrap();
    assert_eq!(written, expected);
    let expected = [(5, "hairpin-mode"), (6, "network-plugin-mtu"), (6, "$MORE")];
    assert_eq!(lost(&plan), expected);
    assert_eq!(plan.notes.len(), 10);
}

#[test]
fn words_files_and_proc_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--log-level=debug --image-pull-progress-deadline 2m --runtime-cgroups=/x";
    let plain = dir.path().join("flags");
    fs::write(&plain, format!("cri-dockerd {words}\n")).unwrap();
    let of_proc = dir.path().join("cmdline");
    let command = format!("/usr/bin/cri-dockerd {words}\0").replace(' ', "\0");
    fs::write(&of_proc, command).unwrap();
    for said in [words, plain.to_str().unwrap(), of_proc.to_str().unwrap()] {
        let plan = planned(&CriDockerd::given(said).unwrap());
        assert_eq!(
            plan.text("log", "level").as_deref(),
            Some("debug"),
            "{said}"
        );
        let deadline = plan.text("images", "progress_timeout");
        assert_eq!(deadline.as_deref(), Some("2m"), "{said}");
        assert_eq!(lost(&plan), [], "{said}");
    }
    let missing = CriDockerd::given("/nonexistent/unit").unwrap_err();
    assert!(
        missing.to_string().contains("/nonexistent/unit"),
        "{missing}"
    );
    let odd = CriDockerd::given("--streaming-bind-addr=host --log-level=loud --other=1").unwrap();
    let names = ["streaming-bind-addr", "log-level", "other"].map(|name| (1, name));
    assert_eq!(lost(&planned(&odd)), names);
    let nothing = CriDockerd::given("--network-plugin= --streaming-bind-addr=:0").unwrap();
    assert_eq!(lost(&planned(&nothing)), [(1, "network-plugin")]);
}

#[test]
fn what_is_laid_over_a_unit_counts() {
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("cri-docker.service");
    let other = dir.path().join("vendor.service");
    let units = [unit.as_path(), other.as_path()];
    assert_eq!(CriDockerd::of_units(&units).unwrap(), None);
    fs::write(&other, UNIT).unwrap();
    let found = CriDockerd::of_units(&units).unwrap().unwrap();
    assert_eq!(found.file, other);
    let over = dir.path().join("cri-docker.service.d");
    fs::create_dir(&over).unwrap();
    let text = "[Service]\nExecStart=\nExecStart=/usr/bin/cri-dockerd --log-level=warn\n";
    fs::write(over.join("10.conf"), text).unwrap();
    fs::write(over.join("20.conf"), "[Service]\nEnvironment=A=b\n").unwrap();
    let found = CriDockerd::of_units(&units).unwrap().unwrap();
    assert_eq!(found.file, over.join("10.conf"));
    assert_eq!(found.words, [(3, "--log-level=warn".to_owned())]);
}

#[test]
fn blanks_and_comments_of_a_unit_are_systemd_s() {
    let unit = "\
[Service]
#ExecStart=/usr/bin/cri-dockerd --log-level=error
  ExecStart =  /usr/bin/cri-dockerd --log-level=debug \\
# --log-level=error
  ; it goes on \\
    --cni-conf-dir=/srv/net.d \\
#
    --cni-cache-dir=/srv/cache
ExecReload = /bin/kill \\
ExecStart = /bin/false
";
    let flags = CriDockerd::of_text(Path::new("cri.service"), unit);
    let expected = [
        (3, "--log-level=debug"),
        (6, "--cni-conf-dir=/srv/net.d"),
        (8, "--cni-cache-dir=/srv/cache"),
    ];
    assert_eq!(
        flags.words,
        expected.map(|(line, word)| (line, word.to_owned()))
    );
}
