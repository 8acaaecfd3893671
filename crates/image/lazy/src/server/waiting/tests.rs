//! Tests of waiting reads: fetches, deadlines and limits.

use super::*;

const LONG: Duration = Duration::from_mins(1);

fn read(unique: u64, parts: Range<u64>) -> Read {
    Read {
        unique,
        node: 16,
        offset: parts.start * PART,
        size: ((parts.end - parts.start) * PART) as u32,
        pid: 1,
    }
}

fn park(waiting: &mut Waiting, read: Read, now: Instant) -> Parked {
    let end = read.offset + u64::from(read.size);
    waiting.park(
        read,
        Some(format!("container {}", read.pid)),
        std::slice::from_ref(&(read.offset..end)),
        now,
        now + LONG,
    )
}

fn asked(waiting: &mut Waiting) -> Vec<(u64, Range<u64>)> {
    let all = std::iter::from_fn(|| waiting.next_to_ask());
    all.map(|it| (it.id, it.bytes.start / PART..it.bytes.end / PART))
        .collect()
}

fn uniques(released: &[Released]) -> Vec<u64> {
    released.iter().map(|it| it.read.unique).collect()
}

#[test]
fn a_part_is_asked_for_once_and_who_waits_for_two_gets_both() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    park(&mut waiting, read(1, 2..4), now);
    assert_eq!(asked(&mut waiting), [(1, 2..4)]);
    park(&mut waiting, read(2, 3..4), now);
    assert_eq!(asked(&mut waiting), []);
    park(&mut waiting, read(3, 0..6), now);
    assert_eq!(asked(&mut waiting), [(2, 0..2), (3, 4..6)]);
    let (_, released) = waiting.answered(1, false, now).unwrap();
    assert_eq!(uniques(&released), [1, 2]);
    assert!(waiting.answered(1, false, now).is_none(), "once");
    let (_, released) = waiting.answered(3, false, now).unwrap();
    assert_eq!(uniques(&released), [0_u64; 0]);
    assert_eq!(waiting.count(16), 1);
    let (_, released) = waiting.answered(2, false, now).unwrap();
    assert_eq!(uniques(&released), [3]);
    assert_eq!(waiting.next_deadline(), None);
}

#[test]
fn a_failure_fails_all_and_what_follows_at_once() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    park(&mut waiting, read(1, 0..2), now);
    park(&mut waiting, read(2, 1..5), now);
    assert_eq!(asked(&mut waiting).len(), 2);
    let (wanted, released) = waiting.answered(1, true, now).unwrap();
    assert_eq!(
        (wanted.bytes.end, uniques(&released)),
        (2 * PART, vec![1, 2])
    );
    assert_eq!(park(&mut waiting, read(3, 1..2), now), Parked::Failed);
    let later = now + GRUDGE;
    assert!(matches!(
        park(&mut waiting, read(3, 1..2), later),
        Parked::Waits { .. }
    ));
    // The fetch is still under way although no read waits for it: a new read joins it.
    park(&mut waiting, read(4, 3..4), now);
    assert_eq!(asked(&mut waiting), [(3, 1..2)]);
    let (_, released) = waiting.answered(2, false, now).unwrap();
    assert_eq!(uniques(&released), [4]);
}

#[test]
fn who_waits_too_long_is_released_and_the_others_are_not() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    park(&mut waiting, read(1, 0..1), now);
    park(&mut waiting, read(2, 0..1), now + LONG);
    assert_eq!(uniques(&waiting.late(now + LONG / 2)), [0_u64; 0]);
    assert_eq!(uniques(&waiting.late(now + LONG)), [1]);
    assert_eq!(waiting.next_deadline(), Some(now + LONG * 2));
}

#[test]
fn a_daemon_that_comes_is_asked_for_what_is_waited_for_alone() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    park(&mut waiting, read(1, 0..1), now);
    park(&mut waiting, read(2, 7..8), now);
    assert_eq!(asked(&mut waiting).len(), 2);
    assert!(waiting.release(1).is_some());
    waiting.ask_again();
    assert!(waiting.answered(2, false, now).is_none(), "not asked yet");
    assert_eq!(asked(&mut waiting), [(2, 7..8)]);
}

#[test]
fn no_more_wait_than_can_be_noted() {
    let taken = (1..ENTRIES - 1).collect();
    let mut waiting = Waiting::new(ENTRIES - 1, &taken);
    let now = Instant::now();
    for (unique, expected) in [(1, 0), (2, ENTRIES - 1)] {
        let parked = park(&mut waiting, read(unique, 0..1), now);
        assert!(matches!(parked, Parked::Waits { entry, .. } if entry == expected));
    }
    assert_eq!(park(&mut waiting, read(3, 0..1), now), Parked::Full);
    let entry = waiting.release(2).unwrap().entry;
    waiting.give_back(entry);
    assert!(
        matches!(park(&mut waiting, read(3, 0..1), now), Parked::Waits { entry, .. } if entry == ENTRIES - 1)
    );
}

#[test]
fn a_layer_and_a_container_leave_room_to_others() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    let of = |unique, node, pid| Read {
        node,
        pid,
        ..read(unique, 0..1)
    };
    let waits =
        |waiting: &mut Waiting, read| matches!(park(waiting, read, now), Parked::Waits { .. });
    for unique in 0..CONTAINER_SHARE as u64 {
        assert!(waits(&mut waiting, of(unique, 16 + unique % 9, 1)));
    }
    let next = CONTAINER_SHARE as u64;
    assert!(
        !waits(&mut waiting, of(next, 99, 1)),
        "the container's share"
    );
    assert!(waits(&mut waiting, of(next, 99, 2)));
    waiting.release(0).unwrap();
    assert!(waits(&mut waiting, of(0, 99, 1)), "one has gone");

    let mut waiting = Waiting::new(0, &BTreeSet::new());
    for unique in 0..LAYER_SHARE as u64 {
        assert!(waits(&mut waiting, of(unique, 16, unique as u32)));
    }
    let next = LAYER_SHARE as u64;
    assert!(!waits(&mut waiting, of(next, 16, 0)), "the layer's share");
    assert!(waits(&mut waiting, of(next, 17, 0)));
}

#[test]
fn a_signal_before_its_read_is_not_lost() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    assert_eq!(waiting.signalled(1), None);
    let parked = park(&mut waiting, read(1, 0..1), now);
    assert!(matches!(
        parked,
        Parked::Waits {
            signalled: true,
            ..
        }
    ));
    waiting.watch(1);
    assert_eq!(waiting.watched(), [read(1, 0..1)]);
    waiting.release(1);
    assert_eq!(waiting.watched(), []);
}

#[test]
fn a_layer_that_is_taken_away_releases_its_own() {
    let mut waiting = Waiting::new(0, &BTreeSet::new());
    let now = Instant::now();
    park(&mut waiting, read(1, 0..1), now);
    let other = Read {
        node: 17,
        ..read(2, 0..1)
    };
    park(&mut waiting, other, now);
    assert_eq!(uniques(&waiting.of_layer(16)), [1]);
    assert_eq!(asked(&mut waiting), [(2, 0..1)]);
}
