//! Tests that no process or file of a browser outlives its test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::site::Site;
use super::{Browser, browser};
use crate::process::{Process, processes};
use crate::skip_unless;

/// Environment variable of the process that is killed.
const VICTIM: &str = "ORLOP_TEST_BROWSER_VICTIM";
const NAME: &str = "browser::tests::ends::a_killed_test_leaves_no_browser";
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the name in the command lines of a browser's processes, and its directories.
fn traces(browser: &Browser) -> (String, [PathBuf; 2]) {
    let (id, dirs) = browser.process.traces();
    assert_eq!(processes(&[&id, "chromedriver"]).len(), 1);
    assert!(processes(&[&id, "--type=renderer"]).len() > 1);
    assert!(dirs.iter().all(|dir| dir.is_dir()), "{dirs:?}");
    (id, dirs)
}

fn assert_gone(id: &str, dirs: &[PathBuf]) {
    assert_eq!(processes(&[id]), Vec::<i32>::new(), "processes of {id}");
    let left: Vec<_> = dirs.iter().filter(|dir| dir.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_dropped_browser_leaves_nothing() {
    skip_unless!(Browser::can_run());
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/good")).await;
    let (id, dirs) = traces(&browser);
    drop(browser);
    assert_gone(&id, &dirs);
}

#[tokio::test]
async fn a_panic_leaves_no_browser() {
    skip_unless!(Browser::can_run());
    let failed = tokio::spawn(async {
        let browser = browser().await;
        let traces = traces(&browser);
        std::panic::panic_any(traces);
    });
    let panic = failed.await.expect_err("it panics").into_panic();
    let (id, dirs) = *panic
        .downcast::<(String, [PathBuf; 2])>()
        .expect("its traces");
    assert_gone(&id, &dirs);
}

#[tokio::test]
async fn a_killed_test_leaves_no_browser() {
    skip_unless!(Browser::can_run());
    if let Some(told) = std::env::var_os(VICTIM) {
        let browser = browser().await;
        let (id, dirs) = traces(&browser);
        let lines = [
            id,
            dirs[0].display().to_string(),
            dirs[1].display().to_string(),
        ];
        std::fs::write(Path::new(&told).with_extension("new"), lines.join("\n")).unwrap();
        std::fs::rename(Path::new(&told).with_extension("new"), &told).unwrap();
        std::future::pending::<()>().await;
    }
    let dir = tempfile::tempdir().expect("make a directory");
    let told = dir.path().join("traces");
    let mut command = Command::new(std::env::current_exe().expect("the test's own path"));
    command
        .args(["--exact", NAME, "--nocapture"])
        .env(VICTIM, &told);
    let mut victim = Process::spawn_reading(
        Stdio::null(),
        "a test",
        &mut command,
        &dir.path().join("log"),
    );
    victim.wait_until(LIMIT, "start a browser", || told.exists());
    let lines = std::fs::read_to_string(&told).expect("read its traces");
    let lines: Vec<&str> = lines.lines().collect();
    let dirs = [lines[1], lines[2]].map(PathBuf::from);
    victim.kill();
    let deadline = Instant::now() + LIMIT;
    while dirs.iter().any(|dir| dir.exists()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_gone(lines[0], &dirs);
}
