//! What a key says of itself, at several times and in several places, as GnuPG judges it.

use super::made::{
    BINDING, CERTIFICATION, DIRECT, KEY_REVOCATION, Made, NAME_REVOCATION, SUBKEY_REVOCATION, Wish,
    name,
};
use super::*;

const DAY: u32 = 86_400;
const YEAR: u32 = 365 * DAY;

/// A message, and a key that is good since long.
struct Scene {
    key: Made,
    subkey: Made,
    message: Vec<u8>,
    by_subkey: Vec<u8>,
    /// A day ago, and the time before.
    now: u32,
}

/// What comes of a message here, and whether GnuPG takes it.
struct Judged {
    ours: Result<String, Refusal>,
    gnupg: bool,
}

/// Begins a test: skips it where there is no GnuPG, else gives a [`Scene`].
macro_rules! scene {
    () => {{
        skip_unless!(machine::has_program("gpg"));
        Scene::new()
    }};
}

impl Scene {
    fn new() -> Self {
        let now = u32::try_from(now()).unwrap() - DAY;
        let [key, subkey] = [3, 2].map(|years| Made::new(now - years * YEAR));
        Self {
            message: key.message(now, CONTENT),
            by_subkey: subkey.message(now, CONTENT),
            key,
            subkey,
            now,
        }
    }

    /// A name's statement of so many days ago.
    fn says(&self, days: u32) -> Wish {
        Wish::new(CERTIFICATION, self.now - days * DAY).flags(3)
    }

    fn of_key(&self, days: u32) -> Wish {
        Wish::new(DIRECT, self.now - days * DAY)
    }

    /// With names and what is said with them.
    fn with(&self, on_key: &[&Wish], names: &[(&str, &[&Wish])]) -> Judged {
        let mut packets = vec![self.key.packet()];
        packets.extend(on_key.iter().map(|wish| self.key.of_itself(wish)));
        for (user, wishes) in names {
            packets.push(name(user));
            packets.extend(wishes.iter().map(|wish| self.key.of_name(wish, user)));
        }
        both(&self.message, &packets)
    }
}

fn both(message: &[u8], packets: &[Vec<u8>]) -> Judged {
    let file = packets.concat();
    let gpg = Gpg::new();
    gpg.run(&["--allow-non-selfsigned-uid", "--import"], &file);
    Judged {
        ours: verify(message, &[&file]),
        gnupg: gpg.accepts(message),
    }
}

/// Fails unless both say yes.
#[track_caller]
fn assert_good(judged: &Judged) {
    assert!(judged.ours.is_ok(), "{:?}", judged.ours);
    assert!(judged.gnupg, "GnuPG does not take it");
}

#[track_caller]
fn assert_expired(judged: &Judged, gnupg: bool) {
    let ours = &judged.ours;
    assert!(matches!(ours, Err(Refusal::KeyExpired(..))), "{ours:?}");
    assert_eq!(judged.gnupg, gnupg);
}

#[track_caller]
fn assert_revoked(judged: &Judged, gnupg: bool) {
    let ours = &judged.ours;
    assert!(matches!(ours, Err(Refusal::KeyRevoked(_))), "{ours:?}");
    assert_eq!(judged.gnupg, gnupg);
}

#[track_caller]
fn assert_doubtful(ours: &Result<String, Refusal>, reason: &str) {
    let Err(refusal @ Refusal::RevocationUnchecked(..)) = ours else {
        panic!("{ours:?}");
    };
    let text = refusal.to_string();
    assert!(text.contains("is treated as revoked"), "{text}");
    assert!(text.ends_with(reason), "{text}");
}

#[test]
fn of_one_name_the_newest_statement_decides() {
    let scene = scene!();
    let (old, new) = (scene.says(700), scene.says(300));
    let ends = |wish: &Wish| wish.clone().for_seconds(YEAR);
    assert_good(&scene.with(&[], &[("a", &[&ends(&old), &new])]));
    assert_good(&scene.with(&[], &[("a", &[&new, &ends(&old)])]));
    assert_expired(&scene.with(&[], &[("a", &[&old, &ends(&new)])]), false);
    assert_expired(&scene.with(&[], &[("a", &[&ends(&new), &old])]), false);
}

#[test]
fn a_statement_that_does_not_hold_does_not_decide() {
    let scene = scene!();
    let (old, new) = (scene.says(700).for_seconds(YEAR), scene.says(300));
    // Its own time is over, for which GnuPG does not ask.
    let over = new.clone().saying(3, &DAY.to_be_bytes());
    assert_expired(&scene.with(&[], &[("a", &[&old, &over])]), true);
    let critical = new.clone().saying(0x80 | 0x63, &[1]);
    assert_expired(&scene.with(&[], &[("a", &[&old, &critical])]), false);
    // Somebody else's.
    let stranger = Made::new(scene.key.created);
    let forged = stranger.of_name(&new, "a");
    let packets = [
        scene.key.packet(),
        name("a"),
        scene.key.of_name(&old, "a"),
        forged,
    ];
    assert_expired(&both(&scene.message, &packets), false);
    // Of another name.
    let packets = [
        scene.key.packet(),
        name("a"),
        scene.key.of_name(&old, "a"),
        scene.key.of_name(&new, "b"),
    ];
    assert_expired(&both(&scene.message, &packets), false);
}

/// GnuPG takes those of the future for good.
#[test]
fn what_the_future_says_frees_nothing_and_limits_all_the_same() {
    let scene = scene!();
    let old = scene.says(700);
    let mut future = old.clone();
    future.at = scene.now + 40 * DAY;
    let ends = |wish: &Wish| wish.clone().for_seconds(YEAR);
    assert_expired(&scene.with(&[], &[("a", &[&ends(&old), &future])]), true);
    assert_expired(&scene.with(&[], &[("a", &[&old, &ends(&future)])]), false);
    let packets = |binding: Vec<Wish>| {
        let mut packets = vec![
            scene.key.packet(),
            name("a"),
            scene.key.of_name(&old, "a"),
            scene.subkey.sub_packet(),
        ];
        packets.extend(
            binding
                .into_iter()
                .map(|it| scene.key.bind(it, &scene.subkey)),
        );
        packets
    };
    let bound = |at: u32| Wish::new(BINDING, at).flags(2);
    let (past, coming) = (bound(scene.now - 300 * DAY), bound(future.at));
    let judged = both(
        &scene.by_subkey,
        &packets(vec![past.clone(), coming.clone()]),
    );
    assert_good(&judged);
    let judged = both(
        &scene.by_subkey,
        &packets(vec![past.clone(), ends(&coming)]),
    );
    assert_expired(&judged, false);
    let judged = both(&scene.by_subkey, &packets(vec![ends(&past), coming]));
    assert_expired(&judged, true);
}

/// GnuPG does not know this hash either, and lets the older statement hold.
#[test]
fn a_newer_statement_that_cannot_be_verified_limits_the_key() {
    let scene = scene!();
    let old = scene.says(700);
    let mut unknown = scene.says(300).for_seconds(YEAR);
    unknown.hash = Some(99);
    assert_expired(&scene.with(&[], &[("a", &[&old, &unknown])]), true);
    let mut older = unknown;
    older.at = scene.now - 800 * DAY;
    assert_good(&scene.with(&[], &[("a", &[&older, &old])]));
}

#[test]
fn of_several_names_one_that_ends_the_key_is_enough() {
    let scene = scene!();
    let (old, new) = (scene.says(700), scene.says(300));
    let ends = |wish: &Wish| wish.clone().for_seconds(YEAR);
    assert_expired(
        &scene.with(&[], &[("a", &[&ends(&old)]), ("b", &[&new])]),
        false,
    );
    assert_expired(
        &scene.with(&[], &[("a", &[&old]), ("b", &[&ends(&new)])]),
        false,
    );
    let longer = new.clone().for_seconds(10 * YEAR);
    assert_good(&scene.with(&[], &[("a", &[&ends(&old)]), ("b", &[&longer])]));
    // It does not matter which one is the first.
    let first = new.saying(25, &[1]);
    assert_expired(
        &scene.with(&[], &[("a", &[&ends(&old)]), ("b", &[&first])]),
        false,
    );
    // What is taken back says nothing.
    let gone = Wish::new(NAME_REVOCATION, scene.now - 500 * DAY);
    let fresh = scene.says(300);
    assert_good(&scene.with(&[], &[("a", &[&ends(&old), &gone]), ("b", &[&fresh])]));
}

#[test]
fn what_is_said_of_the_key_alone_counts_before_its_names() {
    let scene = scene!();
    let (old, new) = (scene.says(700), scene.says(300));
    let ends = |wish: Wish| wish.for_seconds(YEAR);
    let lasts = |wish: Wish| wish.for_seconds(10 * YEAR);
    let of_key = |days| scene.of_key(days).flags(3);
    // A newer word with a name does not free it.
    assert_expired(&scene.with(&[&ends(of_key(700))], &[("a", &[&new])]), false);
    assert_expired(
        &scene.with(&[&ends(of_key(700))], &[("a", &[&lasts(new.clone())])]),
        false,
    );
    assert_good(&scene.with(&[&lasts(of_key(300))], &[("a", &[&ends(old.clone())])]));
    assert_good(&scene.with(
        &[&ends(of_key(700)), &lasts(of_key(300))],
        &[("a", &[&old])],
    ));
    assert_expired(
        &scene.with(
            &[&ends(of_key(300)), &lasts(of_key(700))],
            &[("a", &[&old])],
        ),
        false,
    );
    // Without an end there, that of a name counts.
    assert_expired(&scene.with(&[&of_key(300)], &[("a", &[&ends(old)])]), false);
    // A newer word for less counts, though GnuPG thinks otherwise.
    assert_expired(
        &scene.with(&[&lasts(of_key(700))], &[("a", &[&ends(new)])]),
        true,
    );
}

#[test]
fn what_the_key_is_for_is_said_by_the_same_rules() {
    let scene = scene!();
    let only_certifies = scene.of_key(700).flags(1);
    let judged = scene.with(&[&only_certifies], &[("a", &[&scene.says(300)])]);
    let ours = &judged.ours;
    assert!(matches!(ours, Err(Refusal::MayNotSign(_))), "{ours:?}");
    assert!(!judged.gnupg);
}

#[test]
fn a_revocation_counts_wherever_it_hangs() {
    let scene = scene!();
    let (key, subkey) = (&scene.key, &scene.subkey);
    let revocation = key.of_itself(&Wish::new(KEY_REVOCATION, scene.now - DAY));
    let other = Made::new(subkey.created);
    let bound = |it| key.bind(Wish::new(BINDING, scene.now - 300 * DAY).flags(2), it);
    let good = vec![
        key.packet(),
        name("a"),
        key.of_name(&scene.says(700), "a"),
        subkey.sub_packet(),
        bound(subkey),
        other.sub_packet(),
        bound(&other),
    ];
    let with = |at: usize, packet: &Vec<u8>| {
        let mut packets = good.clone();
        packets.insert(at, packet.clone());
        packets
    };
    assert_good(&both(&scene.message, &good));
    assert_good(&both(&scene.by_subkey, &good));
    for at in [1, 2, 3, 5, 7] {
        assert_revoked(&both(&scene.message, &with(at, &revocation)), false);
        assert_revoked(&both(&scene.by_subkey, &with(at, &revocation)), false);
    }
    let of_subkey = Wish::new(SUBKEY_REVOCATION, scene.now - DAY);
    let of_other = key.of_subkey(&of_subkey, &other);
    let of_subkey = key.of_subkey(&of_subkey, subkey);
    for at in [1, 3, 5, 7] {
        assert_revoked(&both(&scene.by_subkey, &with(at, &of_subkey)), false);
        assert_good(&both(&scene.message, &with(at, &of_subkey)));
        assert_good(&both(&scene.by_subkey, &with(at, &of_other)));
    }
    // Nobody is revoked by a stranger.
    let stranger = Made::new(key.created);
    let forged = stranger.of_itself(&Wish::new(KEY_REVOCATION, scene.now - DAY));
    assert_good(&both(&scene.message, &with(1, &forged)));
}

/// What is odd about a signature.
type Change<'a> = &'a dyn Fn(&mut Wish);

#[test]
fn a_revocation_that_cannot_be_checked_counts_as_one() {
    let scene = scene!();
    let (key, subkey) = (&scene.key, &scene.subkey);
    let good = vec![
        key.packet(),
        name("a"),
        key.of_name(&scene.says(700), "a"),
        subkey.sub_packet(),
        key.bind(Wish::new(BINDING, scene.now - 300 * DAY).flags(2), subkey),
    ];
    let with = |at: usize, packet: &Vec<u8>| {
        let mut packets = good.clone();
        packets.insert(at, packet.clone());
        packets
    };
    let odd = |kind: u8, change: Change<'_>| {
        let mut wish = Wish::new(kind, scene.now - DAY);
        change(&mut wish);
        wish
    };
    let old = with(1, &key.revocation_of_old(scene.now - DAY));
    let old = both(&scene.message, &old);
    assert_doubtful(&old.ours, "a signature of version 3 in it is not supported");
    assert!(!old.gnupg);
    // GnuPG takes no file with some of these.
    let judge = |message: &[u8], packets: &[Vec<u8>]| verify(message, &[&packets.concat()]);
    let changes: [(Change<'_>, &str); 5] = [
        (
            &|it| it.version = Some(5),
            "a signature of version 5 in it is not supported",
        ),
        (
            &|it| it.version = Some(6),
            "a signature of version 6 in it is not supported",
        ),
        (
            &|it| it.algorithm = Some(99),
            "a signature by algorithm 99 is not supported",
        ),
        (
            &|it| it.hash = Some(99),
            "a signature with hash 99 is not supported",
        ),
        (
            // A time of three bytes.
            &|it| it.says.push((3, vec![1, 2, 3])),
            "a subpacket of a signature in it is malformed",
        ),
    ];
    for (change, reason) in changes {
        for at in [1, 3, 5] {
            let revocation = key.of_itself(&odd(KEY_REVOCATION, change));
            assert_doubtful(&judge(&scene.message, &with(at, &revocation)), reason);
            let revocation = key.of_subkey(&odd(SUBKEY_REVOCATION, change), subkey);
            let ours = judge(&scene.by_subkey, &with(at, &revocation));
            assert_doubtful(&ours, reason);
            let ours = judge(&scene.message, &with(at, &revocation));
            assert!(ours.is_ok(), "{ours:?}");
        }
        // At another subkey it is of that.
        let other = Made::new(subkey.created);
        let of_other = [
            other.sub_packet(),
            key.of_subkey(&odd(SUBKEY_REVOCATION, change), &other),
        ];
        let ours = judge(&scene.by_subkey, &[&good[..], &of_other].concat());
        assert!(ours.is_ok(), "{ours:?}");
        // That it can't be checked is no reason to believe that it is of this key.
        let stranger = Made::new(key.created);
        let forged = stranger.of_itself(&odd(KEY_REVOCATION, change));
        let ours = judge(&scene.message, &with(1, &forged));
        assert!(ours.is_ok(), "{ours:?}");
        // A name that is taken back names nobody.
        let gone = key.of_name(&odd(NAME_REVOCATION, change), "a");
        let ours = judge(&scene.message, &with(3, &gone));
        assert!(matches!(ours, Err(Refusal::NotCertified(_))), "{ours:?}");
    }
}

#[test]
fn others_that_the_key_names_revoke_it_wherever_that_hangs() {
    let scene = scene!();
    let (key, revoker) = (&scene.key, Made::new(scene.now - 3 * YEAR));
    let named = [&[0x80, 22], &revoker.fingerprint()[..]].concat();
    let naming = Wish::new(DIRECT, scene.now - 700 * DAY).saying(12, &named);
    let good = vec![
        key.packet(),
        key.of_itself(&naming),
        name("a"),
        key.of_name(&scene.says(700), "a"),
        scene.subkey.sub_packet(),
    ];
    assert_good(&both(&scene.message, &good));
    let mut wish = Wish::new(KEY_REVOCATION, scene.now - DAY);
    for version in [4, 6] {
        wish.version = Some(version);
        let by = |revoker: &Made| revoker.of_subkey(&wish, key);
        for at in [1, 4, 5] {
            let mut packets = good.clone();
            packets.insert(at, by(&revoker));
            let ours = verify(&scene.message, &[&packets.concat()]);
            assert!(matches!(ours, Err(Refusal::KeyRevoked(_))), "{ours:?}");
        }
        let stranger = [&good[..], &[by(&Made::new(key.created))]].concat();
        verify(&scene.message, &[&stranger.concat()]).unwrap();
    }
}
