//! Private keys without a passphrase, given one in each of the ways that there are.

use std::process::Command;
use std::time::{Duration, Instant};

use orlop_openpgp::{SecretKey, SecretKeyError};
use orlop_testkit::encryption::{filter, hex};
use orlop_testkit::{Gpg, machine, skip_unless};
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha384, Sha512};

use crate::gpg::CONTENT;
use crate::gpg::secrets::open;

const PASSPHRASE: &[u8] = b"open sesame";

/// What openssl makes of bytes by AES in CFB.
fn encrypted(bits: u32, key: &[u8], start: &[u8], bytes: &[u8]) -> Vec<u8> {
    let cipher = format!("-aes-{bits}-cfb");
    let mut openssl = Command::new("openssl");
    openssl.args(["enc", &cipher, "-K", &hex(key), "-iv", &hex(start)]);
    filter(&mut openssl, bytes)
}

/// As the standard says it, all at once.
fn key_of<D: Digest>(salt: &[u8], count: u8, length: usize) -> Vec<u8> {
    let count = (16 + usize::from(count & 15)) << ((count >> 4) + 6);
    let once = [salt, PASSPHRASE].concat();
    let bytes = once.iter().copied().cycle().take(count.max(once.len()));
    let bytes: Vec<u8> = bytes.collect();
    let hashes = (0..3).flat_map(|zeros| {
        let mut hash = D::new();
        hash.update(vec![0; zeros]);
        hash.update(&bytes);
        hash.finalize().to_vec()
    });
    hashes.take(length).collect()
}

/// The file of one primary key, alone, with its private part locked.
fn lock(file: &[u8], usage: u8, cipher: u8, hash: u8, count: u8) -> Vec<u8> {
    // An old packet with two bytes of length; RSA's public numbers have theirs in bits.
    assert_eq!(file[0], 0x95);
    let length = usize::from(u16::from_be_bytes([file[1], file[2]]));
    let body = &file[3..3 + length];
    let mut end = 6;
    for _ in 0..2 {
        let bits = u16::from_be_bytes([body[end], body[end + 1]]);
        end += 2 + usize::from(bits).div_ceil(8);
    }
    let (public, secret) = body.split_at(end);
    assert_eq!(secret[0], 0, "it has a passphrase already");
    let numbers = &secret[1..secret.len() - 2];
    let check = match usage {
        254 => Sha1::digest(numbers).to_vec(),
        _ => secret[secret.len() - 2..].to_vec(),
    };
    let (salt, start) = ([5; 8], [6; 16]);
    let (bits, length) = match cipher {
        7 => (128, 16),
        8 => (192, 24),
        _ => (256, 32),
    };
    let key = match hash {
        2 => key_of::<Sha1>(&salt, count, length),
        8 => key_of::<Sha256>(&salt, count, length),
        9 => key_of::<Sha384>(&salt, count, length),
        _ => key_of::<Sha512>(&salt, count, length),
    };
    let numbers = encrypted(bits, &key, &start, &[numbers, &check].concat());
    let how = [usage, cipher, 3, hash];
    let body = [public, &how, &salt, &[count], &start, &numbers].concat();
    let length = (body.len() as u16).to_be_bytes();
    [
        &[0x95],
        &length[..],
        &body,
        &file[3 + usize::from(u16::from_be_bytes([file[1], file[2]]))..],
    ]
    .concat()
}

#[test]
fn all_of_them_are_opened_by_gnupg_and_here() {
    skip_unless!(machine::has_program("gpg"));
    skip_unless!(machine::has_program("openssl"));
    let gpg = Gpg::new();
    let key = gpg.make_key("a@a.example", "rsa2048", "sign,encr", "never");
    let message = gpg.encrypt(&[&key], &[], CONTENT);
    let file = gpg.export_secret(&key);
    for (usage, cipher, hash, count) in [
        (254, 7, 2, 0x60),
        (254, 9, 2, 0x60),
        (254, 9, 8, 0x60),
        (255, 8, 8, 0),
        (255, 9, 10, 0x61),
        (254, 8, 9, 0x6f),
    ] {
        let locked = lock(&file, usage, cipher, hash, count);
        let told = format!("{usage} {cipher} {hash} {count}");
        let other = Gpg::with_passphrase(std::str::from_utf8(PASSPHRASE).unwrap());
        other.run(&["--import"], &locked);
        assert_eq!(other.decrypt(&message).as_deref(), Some(CONTENT), "{told}");
        let keys = SecretKey::all_of(&locked, Some(PASSPHRASE)).unwrap();
        assert_eq!(open(&message, &keys).as_deref(), Ok(CONTENT), "{told}");
        for (passphrase, error) in [
            (None, SecretKeyError::NoPassphrase),
            (Some(&b"close sesame"[..]), SecretKeyError::WrongPassphrase),
        ] {
            assert_eq!(
                SecretKey::all_of(&locked, passphrase).map(drop),
                Err(error),
                "{told}"
            );
        }
    }
}

#[test]
fn as_much_as_can_be_hashed_is_and_more_cannot_be_said() {
    skip_unless!(machine::has_program("gpg"));
    skip_unless!(machine::has_program("openssl"));
    let gpg = Gpg::new();
    let key = gpg.make_key("a@a.example", "rsa2048", "sign,encr", "never");
    let file = gpg.export_secret(&key);
    let locked = lock(&file, 254, 9, 2, 0xff);
    let start = Instant::now();
    let keys = SecretKey::all_of(&locked, Some(PASSPHRASE)).unwrap();
    assert_eq!(keys.len(), 1);
    assert!(start.elapsed() < Duration::from_secs(10), "65 MB twice");
    // Nor as often as somebody likes.
    let cheap = lock(&file, 254, 9, 2, 0);
    let read = |count| SecretKey::all_of(&cheap.repeat(count), Some(PASSPHRASE));
    assert_eq!(read(16).unwrap().len(), 16);
    let error = read(17).map(drop).unwrap_err().to_string();
    assert!(error.contains("keys with a passphrase"), "{error}");
}

#[test]
fn other_ways_are_refused_by_their_names() {
    skip_unless!(machine::has_program("gpg"));
    skip_unless!(machine::has_program("openssl"));
    let gpg = Gpg::new();
    let key = gpg.make_key("a@a.example", "rsa2048", "sign,encr", "never");
    let locked = lock(&gpg.export_secret(&key), 254, 9, 8, 0);
    let at = locked
        .windows(6)
        .position(|it| it == [254, 9, 3, 8, 5, 5])
        .unwrap();
    for (offset, to, reason) in [
        (0, 253, "passphrase protection with AEAD"),
        (0, 7, "in the format of PGP 2"),
        (1, 3, "with the cipher CAST5"),
        (1, 77, "with the cipher 77"),
        (2, 0, "hashed only once"),
        (2, 1, "hashed only once"),
        (2, 4, "with Argon2"),
        (2, 2, "of type 2"),
        (3, 1, "with MD5"),
        (3, 3, "with hash 3"),
    ] {
        let mut changed = locked.clone();
        changed[at + offset] = to;
        let error = SecretKey::all_of(&changed, Some(PASSPHRASE)).map(drop);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}
