//! A server dies, or is replaced, and who reads does not notice.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use orlop_lazy::{Fetch, Held, PART, Parts, Server};
use orlop_testkit::skip_unless;

use crate::support::{self, Daemon, LIMIT, Layer, Node, check, content, fill, kill, mix, until};

/// How many times servers are killed: `$ORLOP_LAZY_KILLS`, else this.
const KILLS: u64 = 60;
const READERS: u64 = 16;
const SIZE: u64 = 20_000 * PART;

/// Reads at random places, past the kernel's cache, so that every read is a request.
fn read_for_ever(layer: &Layer, reader: u64, stop: &AtomicBool, done: &AtomicU64) {
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(&layer.file)
        .unwrap();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let dice = mix(reader << 40 | number);
        // Some go where all are, some where nobody was yet.
        let around = if dice.is_multiple_of(4) {
            SIZE
        } else {
            200 * PART
        };
        let at = mix(dice) % (around / 4096 - 64) * 4096;
        let length = (dice >> 8) % 64 * 4096 + 4096;
        check(&file, at, length).unwrap();
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// What fetches slowly enough that somebody waits whenever a server dies.
fn slowly(parts: &Arc<Parts>) -> impl FnMut(&Fetch) -> Result<(), String> + Send + 'static {
    let parts = Arc::clone(parts);
    move |wanted| {
        std::thread::sleep(Duration::from_micros(300));
        fill(&parts, wanted.offset, wanted.length);
        Ok(())
    }
}

fn kills_under_readers(by_journal: bool) {
    let kills = std::env::var("ORLOP_LAZY_KILLS")
        .ok()
        .and_then(|it| it.parse().ok());
    let mut node = Node::with(|place| place.by_journal = by_journal);
    let layer = Arc::new(node.layer("busy", SIZE, LIMIT));
    let stop = Arc::new(AtomicBool::new(false));
    let done: Arc<Vec<AtomicU64>> = Arc::new((0..READERS).map(|_| AtomicU64::new(0)).collect());
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (layer, stop, done) = (Arc::clone(&layer), Arc::clone(&stop), Arc::clone(&done));
            std::thread::spawn(move || read_for_ever(&layer, reader, &stop, &done[reader as usize]))
        })
        .collect();
    let mut fetched = 0;
    let mut waited = 0;
    for number in 0..kills.unwrap_or(KILLS) {
        let daemon = Daemon::new(node.server(), slowly(&layer.parts));
        std::thread::sleep(Duration::from_micros(mix(number) % 8000));
        node.succeed();
        let (fetches, failures) = daemon.end();
        assert_eq!(failures, []);
        fetched += fetches.len();
        waited += node.server().list().unwrap()[0].waiting;
    }
    let _daemon = Daemon::new(node.server(), slowly(&layer.parts));
    let counts = || -> Vec<u64> { done.iter().map(|it| it.load(Ordering::Relaxed)).collect() };
    let before = counts();
    until("every reader goes on", || {
        counts()
            .iter()
            .zip(&before)
            .all(|(now, before)| now > before)
    });
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
    let all: u64 = before.iter().sum();
    eprintln!("{all} reads, {fetched} fetches; {waited} reads waited when a successor began");
    assert!(all > 100 && fetched > 100, "{all} reads, {fetched} fetches");
}

#[test]
fn readers_live_through_kills_where_the_kernel_sends_again() {
    skip_unless!(support::may_serve());
    kills_under_readers(false);
}

#[test]
fn readers_live_through_kills_by_the_journal() {
    skip_unless!(support::may_serve());
    kills_under_readers(true);
}

#[test]
fn a_read_that_waits_when_its_server_dies_gets_its_bytes_and_no_new_timeout() {
    skip_unless!(support::may_serve());
    let mut node = Node::with(|place| place.by_journal = true);
    let layer = Arc::new(node.layer("waits", 8 * PART, Duration::from_secs(4)));
    let started = std::time::Instant::now();
    let reader = |part: u64| {
        let layer = Arc::clone(&layer);
        std::thread::spawn(move || check(&layer.open(), part * PART, 10))
    };
    let (served, fails) = (reader(0), reader(7));
    until("both wait", || {
        node.server().list().unwrap()[0].waiting >= 2
    });
    std::thread::sleep(Duration::from_millis(2500));
    node.succeed();
    assert!(node.server().list().unwrap()[0].waiting >= 2);
    let parts = Arc::clone(&layer.parts);
    let _daemon = Daemon::that_answers(node.server(), move |wanted, answers| {
        if wanted.offset == 0 {
            fill(&parts, wanted.offset, wanted.length);
            answers.is_here(wanted.id).unwrap();
        }
    });
    served.join().unwrap().unwrap();
    assert_eq!(fails.join().unwrap().unwrap_err().raw_os_error(), Some(5));
    let took = started.elapsed();
    assert!(
        took > Duration::from_millis(3500) && took < Duration::from_millis(5800),
        "{took:?}"
    );
}

#[test]
fn who_reads_while_there_is_no_server_waits_and_can_be_killed() {
    let mut node = node!();
    let layer = Arc::new(node.layer("alone", 8 * PART, LIMIT));
    layer.fetch(0, 8 * PART);
    let held = node.kill();
    assert!(held.is_alive());
    assert!(Server::connect(&node.place.directory).unwrap().is_none());
    let mut killed = std::process::Command::new("cat")
        .arg(&layer.file)
        .spawn()
        .unwrap();
    let reader = {
        let layer = Arc::clone(&layer);
        std::thread::spawn(move || check(&layer.open(), 0, 8 * PART).unwrap())
    };
    std::thread::sleep(Duration::from_millis(200));
    assert!(!reader.is_finished());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let server = Server::succeed(&node.place, &held).unwrap();
    node.guard(&server);
    reader.join().unwrap();
    node.server = Some(server);
    node.succeed();
}

#[test]
fn a_server_is_replaced_by_another_version() {
    let mut node = node!();
    let layer = node.layer("stays", 8 * PART, LIMIT);
    layer.fetch(0, 4 * PART);
    let file = layer.open();
    // One whose name the kernel has not looked up yet.
    let other = node.layer("other", PART, LIMIT);
    other.fetch(0, PART);
    let held = node.server.take().unwrap().leave().unwrap();
    let server = Server::succeed(&node.place, &held).unwrap();
    node.guard(&server);
    check(&file, 0, 4 * PART).unwrap();
    check(&other.open(), 0, PART).unwrap();
    let listed = server.list().unwrap();
    assert!(listed[0].open && listed[0].key == "stays" && listed.len() == 2);
    server.stop().unwrap();
    assert!(!layer.file.exists());
}

#[test]
fn a_server_that_is_stopped_serves_whoever_is_left_and_ends_then() {
    let mut node = node!();
    let layer = Arc::new(node.layer("left", 8 * PART, LIMIT));
    layer.fetch(0, 4 * PART);
    let file = layer.open();
    check(&file, 0, 10).unwrap();
    let waiter = {
        let layer = Arc::clone(&layer);
        std::thread::spawn(move || check(&layer.open(), 6 * PART, 10))
    };
    until("it waits", || node.server().list().unwrap()[0].waiting > 0);
    let server = node.server.take().unwrap();
    let old = format!("/proc/{}", server.pid());
    server.stop().unwrap();
    waiter.join().unwrap().unwrap_err();
    assert!(!layer.file.exists());
    // Its place is free at once.
    let next = Server::start(&node.place).unwrap();
    node.guard(&next);
    check(&file, 2 * PART, 2 * PART).unwrap();
    check(&file, 5 * PART, 10).unwrap_err();
    assert!(std::path::Path::new(&old).exists());
    drop(file);
    until("it ends", || !std::path::Path::new(&old).exists());
    assert_eq!(next.list().unwrap().len(), 0);
    node.server = Some(next);
}

#[test]
fn when_both_die_the_session_is_lost_and_a_new_one_begins() {
    let mut node = node!();
    let layer = node.layer("lost", 8 * PART, LIMIT);
    layer.fetch(0, 8 * PART);
    let file = layer.open();
    let held: Held = node.kill();
    drop(held);
    let lost = check(&file, 0, 10).unwrap_err();
    let lost = lost.raw_os_error();
    let gone = [rustix::io::Errno::NOTCONN, rustix::io::Errno::CONNABORTED];
    assert!(
        gone.iter().any(|it| Some(it.raw_os_error()) == lost),
        "{lost:?}"
    );
    assert!(Server::connect(&node.place.directory).unwrap().is_none());
    let server = Server::start(&node.place).unwrap();
    node.guard(&server);
    assert_eq!(server.list().unwrap(), []);
    // Nor does a successor know what was in the one that is lost.
    kill(server.pid());
    let server = Server::succeed(&node.place, server.held()).unwrap();
    node.guard(&server);
    assert_eq!(server.list().unwrap(), []);
    server
        .add("lost", &layer.directory, layer.size, LIMIT)
        .unwrap();
    assert_eq!(std::fs::read(&layer.file).unwrap(), content(0, layer.size));
    // One that the kernel ended is seen as well.
    assert!(server.held().is_alive());
    node.server = Some(server);
    let held = node.kill();
    assert!(held.is_alive());
    rustix::mount::unmount(&node.place.mount_point, rustix::mount::UnmountFlags::DETACH).unwrap();
    until("it is seen", || !held.is_alive());
}

#[test]
fn there_is_one_server_for_a_directory() {
    let node = node!();
    let layer = node.layer("kept", PART, LIMIT);
    layer.fetch(0, PART);
    let second = Server::start(&node.place).map(|second| kill(second.pid()));
    let second = second.unwrap_err();
    assert!(second.to_string().contains("locking"), "{second}");
    check(&layer.open(), 0, PART).unwrap();
    assert_eq!(node.server().list().unwrap().len(), 1);
}
