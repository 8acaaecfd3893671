//! Container logs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_launch::{KeeperEvent, make_private_dir};

use crate::support::{self, Pod, parse_log};

#[tokio::test]
async fn both_streams_whole_lines_partial_lines_and_binary_data() {
    let mut pod = Pod::new().await;
    let script = "echo out; echo err >&2; head -c 40000 /dev/zero | tr '\\0' a; echo; \
                  printf 'b\\000\\377\\r\\n'; echo; printf end";
    pod.run_script("c1", script).await;
    assert_eq!(pod.exit_of("c1").await.code, 0);

    let log = pod.log("c1");
    let (err, out): (Vec<_>, Vec<_>) = log.into_iter().partition(|line| line.0 == "stderr");
    assert_eq!(err, [("stderr".into(), "F".into(), b"err".to_vec())]);
    let shape: Vec<(&str, usize)> = out
        .iter()
        .map(|line| (line.1.as_str(), line.2.len()))
        .collect();
    let long = [("P", 16384), ("P", 16384), ("F", 7232)];
    assert_eq!(shape[0], ("F", 3));
    assert_eq!(shape[1..4], long);
    assert_eq!(out[4].2, b"b\0\xff\r");
    assert_eq!(
        (out[5].2.as_slice(), out[6].2.as_slice()),
        (&b""[..], &b"end"[..])
    );
    assert_eq!((out[5].1.as_str(), out[6].1.as_str()), ("F", "P"));
    assert_eq!(out.len(), 7);

    let mode = fs::metadata(pod.log_path("c1"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[tokio::test]
async fn the_exit_is_reported_only_when_all_output_is_in_the_log() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "head -c 200000 /dev/zero | tr '\\0' '\\n'; echo last")
        .await;
    assert_eq!(pod.exit_of("c1").await.code, 0);
    let log = pod.log("c1");
    assert_eq!(log.len(), 200_001);
    assert_eq!(log[200_000].2, b"last");
}

#[tokio::test]
async fn reopening_loses_and_tears_no_line() {
    const LINES: usize = 20_000;
    let mut pod = Pod::new().await;
    let script =
        format!("read go; i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done");
    let mut wish = pod.script("c1", &script);
    wish.create.stdin = true;
    pod.run(&wish).await;
    // Nothing is written before the watcher is there to start it.
    let (ours, theirs) = std::io::pipe().unwrap();
    let streams = orlop_launch::AttachStreams {
        stdin: Some(ours.into()),
        ..Default::default()
    };
    pod.keeper.attach("c1", streams).await.unwrap();
    std::io::Write::write_all(&mut &theirs, b"go\n").unwrap();

    let path = pod.log_path("c1");
    let mut files = Vec::new();
    for number in 0..20 {
        let aside = path.with_extension(format!("log.{number}"));
        fs::rename(&path, &aside).unwrap();
        pod.keeper.reopen_log("c1").await.unwrap();
        assert!(path.exists());
        files.push(aside);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    pod.exit_of("c1").await;
    files.push(path);
    let contents = files
        .iter()
        .flat_map(|file| parse_log(&fs::read(file).unwrap()));
    let contents: Vec<String> = contents
        .map(|line| String::from_utf8(line.2).unwrap())
        .collect();
    let expected: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    assert!(contents == expected, "{} lines", contents.len());
}

#[tokio::test]
async fn reopening_where_there_is_no_directory_fails_and_the_old_file_goes_on() {
    let pod = Pod::new().await;
    let mut wish = pod.script("c1", "i=0; while :; do echo $((i=i+1)); sleep 0.02; done");
    let dir = pod.dir.path().join("logs");
    fs::create_dir(&dir).unwrap();
    wish.create.log_path = Some(dir.join("0.log"));
    pod.run(&wish).await;
    let moved = pod.dir.path().join("moved");
    fs::rename(&dir, &moved).unwrap();
    let error = pod.keeper.reopen_log("c1").await.unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
    let length = || fs::metadata(moved.join("0.log")).unwrap().len();
    let before = length();
    support::eventually("the old log to grow", || length() > before).await;

    fs::rename(&moved, &dir).unwrap();
    pod.keeper.reopen_log("c1").await.unwrap();
}

#[tokio::test]
async fn a_full_log_disk_stops_nobody_and_leaves_a_note() {
    let mut pod = Pod::with(|dir, spec| {
        make_private_dir(&dir.join("private")).unwrap();
        // To have a disk of which nobody else knows, where the keeper finds it.
        spec.few_mounts = None;
    })
    .await;
    let disk = pod.dir.path().join("private/disk");
    fs::create_dir(&disk).unwrap();
    let mount = support::detached_tmpfs(c"128k");
    pod.keeper.place_mount("c1", mount, &disk).await.unwrap();
    // As the keeper sees it.
    let proc = Path::new("/proc").join(pod.keeper_pid.to_string());
    let seen = proc.join("root").join(disk.strip_prefix("/").unwrap());
    fs::write(seen.join("filler"), vec![0; 64 << 10]).unwrap();

    let script = "echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; \
                  read go; echo again; exit 3";
    let mut wish = pod.script("c1", script);
    wish.create.stdin = true;
    wish.create.log_path = Some(disk.join("0.log"));
    pod.run(&wish).await;
    let KeeperEvent::LogDropped(dropped) = pod.event().await else {
        panic!("nothing was dropped");
    };
    assert!(dropped.reason.contains("No space left"), "{dropped:?}");
    // The container is not held up: it writes all that it has.
    orlop_testkit::wait_until!(
        support::LIMIT,
        pod.keeper.list().await.unwrap().containers[0].log_dropped_bytes >= 900_000,
        "the container is stuck"
    );
    fs::remove_file(seen.join("filler")).unwrap();
    let input = pod.input("c1").await;
    std::io::Write::write_all(&mut &input, b"go\n").unwrap();
    assert_eq!(pod.exit_of("c1").await.code, 3);

    let log = fs::read_to_string(seen.join("0.log")).unwrap();
    let lines = log.lines().filter(|line| !line.contains("xxx"));
    let lines: Vec<&str> = lines.map(|line| &line[31..]).collect();
    assert_eq!(lines.first(), Some(&"stdout F first"), "{lines:#?}");
    assert_eq!(lines.last(), Some(&"stdout F again"), "{lines:#?}");
    let note = lines
        .iter()
        .find(|line| line.starts_with("stderr F [orlop: "));
    let reason = "were lost: No space left on device";
    assert!(note.is_some_and(|note| note.contains(reason)), "{lines:#?}");
}

#[tokio::test]
async fn a_log_that_is_not_a_file_of_its_own_is_refused() {
    let pod = Pod::new().await;
    let victim = pod.dir.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    symlink(&victim, pod.log_path("c1")).unwrap();
    let error = pod.create(&pod.script("c1", "echo hello")).await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("cannot open log"), "{error}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    assert!(pod.keeper.list().await.unwrap().containers.is_empty());
}

#[tokio::test]
async fn a_background_process_that_keeps_the_pipe_does_not_delay_the_exit() {
    let mut pod = Pod::new().await;
    // In the host's PID namespace nothing ends the rest of the container with its first process.
    let mut wish = pod.script("c1", "(sleep 3; echo late) & echo early");
    let namespaces = wish.config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.retain(|namespace| namespace["type"] != "pid");
    pod.run(&wish).await;
    let begin = Instant::now();
    pod.exit_of("c1").await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(pod.logged("c1"), "early\n");
    pod.wait_for_log("c1", "late").await;
}

#[tokio::test]
async fn a_link_between_the_logs_directory_and_a_log_is_not_followed() {
    let mut pod = Pod::new().await;
    let logs = pod.dir.path().join("logs");
    let foreign = pod.dir.path().join("foreign");
    fs::create_dir_all(logs.join("c1")).unwrap();
    fs::create_dir(&foreign).unwrap();
    let mut wish = pod.script("c1", "echo one; read go; echo two");
    wish.create.stdin = true;
    wish.create.stdin_once = true;
    wish.create.log_dir = Some(logs.clone());
    wish.create.log_path = Some(logs.join("c1/0.log"));
    pod.run(&wish).await;
    let contents = |name: &str| parse_log(&fs::read(logs.join("c1").join(name)).unwrap());
    support::eventually("its first words", || !contents("0.log").is_empty()).await;

    // A pod that can write there puts a link in the directory's place.
    fs::rename(logs.join("c1"), logs.join("aside")).unwrap();
    symlink(&foreign, logs.join("c1")).unwrap();
    pod.keeper.reopen_log("c1").await.unwrap_err();
    let mut other = pod.script("c2", "true");
    other.create.log_dir = Some(logs.clone());
    other.create.log_path = Some(logs.join("c1/1.log"));
    let error = pod.create(&other).await.unwrap_err().to_string();
    assert!(error.contains("cannot open log"), "{error}");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 0);

    // What a kubelet does goes on as ever.
    fs::remove_file(logs.join("c1")).unwrap();
    fs::rename(logs.join("aside"), logs.join("c1")).unwrap();
    fs::rename(logs.join("c1/0.log"), logs.join("c1/0.log.1")).unwrap();
    pod.keeper.reopen_log("c1").await.unwrap();
    drop(pod.input("c1").await);
    pod.exit_of("c1").await;
    assert_eq!(contents("0.log.1")[0].2, b"one");
    assert_eq!(contents("0.log")[0].2, b"two");
}
