//! What who reads a lazy layer notices.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orlop_lazy::{PART, Server};

use crate::support::{Daemon, LIMIT, check, content, fill, mix, until};

#[test]
fn bytes_that_come_in_any_order_are_the_right_ones() {
    let node = node!();
    let size = 300 * PART + 12_345;
    let layer = Arc::new(node.layer("one", size, LIMIT));
    let other = node.layer("two", 5, LIMIT);
    let daemon = Daemon::of(node.server(), &[&layer, &other]);
    // What nobody asked for comes in between.
    let parts = Arc::clone(&layer.parts);
    let unasked = std::thread::spawn(move || {
        for number in 0..100 {
            let part = mix(number) % 300;
            fill(&parts, part * PART, PART);
        }
    });
    let readers: Vec<_> = (0..16_u64)
        .map(|reader| {
            let layer = Arc::clone(&layer);
            std::thread::spawn(move || {
                let file = layer.open();
                for number in 0..150 {
                    let at = mix(reader << 32 | number) % size;
                    let length = mix(at) % (5 * PART);
                    check(&file, at, length.min(size - at)).unwrap();
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    unasked.join().unwrap();
    assert_eq!(std::fs::read(&layer.file).unwrap(), content(0, size));
    assert_eq!(std::fs::read(&other.file).unwrap(), content(0, 5));
    let (fetches, failures) = daemon.end();
    assert_eq!(failures, []);
    // Each part once; what came unasked perhaps not at all.
    let mut parts: Vec<u64> = fetches
        .iter()
        .filter(|fetch| fetch.key == "one")
        .flat_map(|fetch| fetch.offset / PART..(fetch.offset + fetch.length).div_ceil(PART))
        .collect();
    let all = parts.len();
    parts.sort_unstable();
    parts.dedup();
    assert_eq!(all, parts.len(), "some part was asked for twice");
    assert!(all > 100, "{all} parts were asked for");
}

#[test]
fn the_directory_has_all_layers_and_nothing_can_be_written() {
    let node = node!();
    let names: Vec<String> = (0..700)
        .map(|it| format!("sha256:{:064x}", mix(it)))
        .collect();
    let first = node.layer(&names[0], 3 * PART + 1, LIMIT);
    for name in &names[1..] {
        let again = node.server().add(name, &first.directory, first.size, LIMIT);
        again.unwrap();
    }
    let mut there: Vec<String> = std::fs::read_dir(&node.place.mount_point)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(there, expected);
    let about = std::fs::metadata(&first.file).unwrap();
    assert!(about.is_file() && about.len() == 3 * PART + 1);
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&about), 0o100_444);
    let missing = File::open(node.place.mount_point.join("none")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let write = File::options().write(true).open(&first.file).unwrap_err();
    assert_eq!(write.kind(), io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(node.server().list().unwrap().len(), names.len());
    rustix::fs::statfs(&node.place.mount_point).unwrap();
    for key in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
        let added = node.server().add(key, &first.directory, first.size, LIMIT);
        added.unwrap_err();
    }
    let added = node
        .server()
        .add(&names[0], &first.directory, first.size + 1, LIMIT);
    added.unwrap_err();
}

#[test]
fn what_never_comes_is_an_error_within_the_timeout() {
    let node = node!();
    let layer = node.layer("late", 20 * PART, Duration::from_millis(700));
    let daemon = Daemon::that_answers(node.server(), |_, _| {});
    layer.fetch(PART, PART);
    let file = layer.open();
    let started = Instant::now();
    let failed = check(&file, 8 * PART, 100).unwrap_err();
    let took = started.elapsed();
    assert_eq!(failed.raw_os_error(), Some(5));
    // The kernel tries the page once more, which does not take as long again.
    assert!(
        took > Duration::from_millis(600) && took < Duration::from_millis(1300),
        "{took:?}"
    );
    // What is here is read at the same time.
    check(&file, PART + 7, 1000).unwrap();
    let (fetches, failures) = daemon.end();
    assert!(!fetches.is_empty());
    assert!(
        failures[0].timed_out && failures[0].key == "late",
        "{failures:?}"
    );
    let read = failures[0].offset..failures[0].offset + failures[0].length;
    assert!(read.contains(&(8 * PART)), "{failures:?}");
}

#[test]
fn what_cannot_be_fetched_is_an_error_and_may_be_tried_again() {
    let node = node!();
    let layer = node.layer("refused", 4 * PART, LIMIT);
    let works = Arc::new(AtomicBool::new(false));
    let (does, parts) = (Arc::clone(&works), Arc::clone(&layer.parts));
    let daemon = Daemon::new(node.server(), move |wanted| {
        if !does.load(Ordering::SeqCst) {
            return Err("the registry is away".to_owned());
        }
        fill(&parts, wanted.offset, wanted.length);
        Ok(())
    });
    let file = layer.open();
    assert_eq!(check(&file, 0, 10).unwrap_err().raw_os_error(), Some(5));
    works.store(true, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1100));
    check(&file, 0, 10).unwrap();
    let (_, failures) = daemon.end();
    assert_eq!(failures[0].reason, "the registry is away");
    assert!(!failures[0].timed_out);
}

#[test]
fn a_daemon_that_lies_is_found_out() {
    let node = node!();
    let layer = node.layer("lie", 4 * PART, LIMIT);
    let daemon = Daemon::new(node.server(), |_| Ok(()));
    let file = layer.open();
    assert_eq!(check(&file, 0, 10).unwrap_err().raw_os_error(), Some(5));
    let (_, failures) = daemon.end();
    assert!(failures[0].reason.contains("is missing"), "{failures:?}");
}

/// A program that reads a byte, through the kernel's cache or past it.
fn byte_reader(file: &std::path::Path, direct: bool) -> std::process::Child {
    let flags = if direct {
        "iflag=direct"
    } else {
        "iflag=fullblock"
    };
    Command::new("dd")
        .arg(format!("if={}", file.display()))
        .args(["of=/dev/null", "bs=4096", "count=1", flags])
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn who_waits_can_be_killed() {
    let node = node!();
    for direct in [false, true] {
        let layer = node.layer(if direct { "direct" } else { "cached" }, 4 * PART, LIMIT);
        let waits = || {
            node.server()
                .list()
                .unwrap()
                .iter()
                .any(|it| it.waiting > 0)
        };
        for signal in ["KILL", "TERM"] {
            let mut reader = byte_reader(&layer.file, direct);
            until("it waits", waits);
            let killed = Instant::now();
            let kill = ["-s", signal, &reader.id().to_string()].map(str::to_owned);
            assert!(Command::new("kill").args(kill).status().unwrap().success());
            let status = reader.wait().unwrap();
            assert!(!status.success());
            let took = killed.elapsed();
            assert!(took < Duration::from_secs(3), "{signal}: {took:?}");
        }
        node.server()
            .remove(if direct { "direct" } else { "cached" })
            .unwrap();
    }
}

#[test]
fn a_signal_that_kills_nobody_fails_no_read() {
    let node = node!();
    let layer = node.layer("signals", 4 * PART, LIMIT);
    // Past the kernel's cache, where any signal is told of.
    let script = "use Fcntl; $SIG{USR1} = sub {};\n\
         sysopen(my $file, $ARGV[0], O_RDONLY | O_DIRECT) or die $!;\n\
         my $got = sysread($file, my $bytes, 4096);\n\
         defined $got or die $!;\n\
         print substr($bytes, 0, 8);\n";
    let reader = Command::new("perl")
        .args(["-e", script])
        .arg(&layer.file)
        .stdout(Stdio::piped())
        .spawn();
    let Ok(reader) = reader else {
        orlop_testkit::skip!("needs perl");
    };
    let waits =
        |count| move |server: &Server| server.list().unwrap().iter().any(|it| it.waiting == count);
    until("it waits", || waits(1)(node.server()));
    for _ in 0..3 {
        let pid = reader.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", "USR1", &pid])
                .status()
                .unwrap()
                .success()
        );
        std::thread::sleep(Duration::from_millis(150));
        assert!(waits(1)(node.server()), "it waits no more");
    }
    let _daemon = Daemon::of(node.server(), &[&layer]);
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, content(0, 8));
}

#[test]
fn who_waits_is_served_by_the_next_daemon() {
    let mut node = node!();
    let layer = Arc::new(node.layer("patient", 40 * PART, LIMIT));
    // One that is asked and says nothing, as one that is killed while it fetches.
    let daemon = Daemon::that_answers(node.server(), |_, _| {});
    let readers: Vec<_> = (0..8_u64)
        .map(|reader| {
            let layer = Arc::clone(&layer);
            std::thread::spawn(move || check(&layer.open(), reader * 5 * PART, 10).unwrap())
        })
        .collect();
    let asked = Arc::clone(&daemon.fetches);
    until("it is asked", || asked.load(Ordering::Relaxed) > 0);
    daemon.end();
    drop(node.server.take());
    let server = Server::connect(&node.place.directory).unwrap().unwrap();
    assert!(server.held().is_alive());
    let daemon = Daemon::of(&server, &[&layer]);
    for reader in readers {
        reader.join().unwrap();
    }
    let (fetches, failures) = daemon.end();
    assert!(!fetches.is_empty() && failures.is_empty());
    node.server = Some(server);
}

/// A layer that has become whole is removed, too, and who waited for the last of it gets it.
#[test]
fn who_waits_for_what_has_come_gets_it_when_the_layer_is_removed() {
    let node = node!();
    let layer = Arc::new(node.layer("whole", 40 * PART, LIMIT));
    let waiter = {
        let layer = Arc::clone(&layer);
        std::thread::spawn(move || check(&layer.open(), 20 * PART, 10))
    };
    until("it waits", || node.server().list().unwrap()[0].waiting > 0);
    // Nobody answers what is asked for.
    layer.fetch(0, 40 * PART);
    node.server().remove("whole").unwrap();
    waiter.join().unwrap().unwrap();
}

#[test]
fn who_has_a_layer_open_reads_on_when_it_is_removed() {
    let node = node!();
    let layer = Arc::new(node.layer("old", 40 * PART, LIMIT));
    layer.fetch(0, 10 * PART);
    let file = layer.open();
    check(&file, 0, 10).unwrap();
    let waiter = {
        let layer = Arc::clone(&layer);
        std::thread::spawn(move || check(&layer.open(), 20 * PART, 10))
    };
    until("it waits", || node.server().list().unwrap()[0].waiting > 0);
    node.server().remove("old").unwrap();
    node.server().remove("old").unwrap_err();
    assert_eq!(waiter.join().unwrap().unwrap_err().raw_os_error(), Some(5));
    assert_eq!(
        File::open(&layer.file).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    check(&file, 3 * PART, 7 * PART).unwrap();
    let at_once = Instant::now();
    check(&file, 30 * PART, 10).unwrap_err();
    assert!(at_once.elapsed() < Duration::from_secs(2));
    // Another of the same name is another.
    std::fs::remove_dir_all(&layer.directory).unwrap();
    let new = node.layer("old", 2 * PART, LIMIT);
    new.fetch(0, 2 * PART);
    assert_eq!(std::fs::read(&new.file).unwrap(), content(0, 2 * PART));
    check(&file, 9 * PART, PART).unwrap();
    let pid = node.server().pid();
    let holds = |what: &str| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        links
            .filter(|link| link.to_string_lossy().contains(what))
            .count()
    };
    assert_eq!(
        holds("(deleted)"),
        3,
        "two files of the layer, and the memory file"
    );
    drop(file);
    until("its files are let go of", || holds("(deleted)") == 1);
}

#[test]
fn a_read_behind_the_end_is_empty() {
    let node = node!();
    let layer = node.layer("short", PART + 10, LIMIT);
    layer.fetch(0, PART + 10);
    let file = layer.open();
    let mut bytes = [0; 100];
    assert_eq!(file.read_at(&mut bytes, PART + 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut bytes, u64::MAX >> 1).unwrap_or(0), 0);
    assert_eq!(file.read_at(&mut bytes, PART + 3).unwrap(), 7);
    assert_eq!(bytes[..7], content(PART + 3, 7));
}
