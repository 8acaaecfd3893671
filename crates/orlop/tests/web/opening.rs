//! `orlop web` from its start to its end.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::node::binary;
use orlop_testkit::process::ended;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_browser_gets_the_address_by_a_file_and_not_on_its_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let (browser, got) = (dir.path().join("browser"), dir.path().join("got"));
    let script = format!(
        "#!/bin/sh\nstat -c %a \"$1\" > {0}.new\ncat \"$1\" >> {0}.new\nmv {0}.new {0}\n",
        got.display()
    );
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut page = Command::new(binary())
        .args(["web", "-r", "unix:///nowhere/at/all.sock", "--open"])
        .env("BROWSER", &browser)
        .env("TMPDIR", dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let out = page.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut address).unwrap();
    let begin = Instant::now();
    while !got.exists() && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(&got).unwrap_or_default();
    let pid = Pid::from_raw(i32::try_from(page.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(page.wait().unwrap().success());
    let (mode, page) = text.split_once('\n').expect("the browser ran");
    assert_eq!(mode, "600");
    assert!(page.contains(&format!("url={}", address.trim())), "{page}");
    let left = std::fs::read_dir(dir.path()).unwrap();
    assert_eq!(left.count(), 2, "the file for the browser is gone");
}

#[test]
fn an_address_of_other_machines_needs_a_certificate() {
    let said = ended(Command::new(binary()).args([
        "web",
        "-r",
        "unix:///nowhere/at/all.sock",
        "--listen",
        "0.0.0.0:0",
    ]));
    assert!(!said.ok && said.out.is_empty(), "{said:?}");
    assert!(said.err.contains("configure a certificate"), "{said:?}");
}
