//! Bounded fuzzing of what daemon and keeper tell each other: an end that dies, or another
//! version, may send anything.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use orlop_keeper_protocol::{
    AddLayer, Body, Create, Created, Event, Exec, ExitStatus, Exited, Failure, Fetch, FetchAnswer,
    Frame, FrameBuffer, LayerListing, LazyBegin, LazyStop, Listing, MAX_PAYLOAD, ReadFailed, Setup,
    Welcome,
};
use orlop_testkit::Fuzz;

/// Frames come out the same however the bytes were cut, none is too large, and what a message
/// was read as reads the same once written.
#[test]
fn no_frame_breaks_the_other_end() {
    let create = Create {
        container: "main".into(),
        log_path: "/var/log/pods/main.log".into(),
        ..Create::default()
    };
    let exited = Exited::default();
    let layer = AddLayer {
        key: "sha256:abc".into(),
        directory: "/var/lib/orlop/layers/abc".into(),
        size: 1 << 30,
        timeout_ms: 1000,
    };
    Fuzz::new()
        .example(Frame::encode(&create, 7, 0).unwrap())
        .example(
            [
                Frame::encode(&exited, 0, 0).unwrap(),
                Frame::encode(&Welcome::default(), 1, 0).unwrap(),
                Frame::encode(&Listing::default(), 2, 0).unwrap(),
            ]
            .concat(),
        )
        .example(Frame::encode(&Setup::default(), 3, 0).unwrap())
        .example(Frame::encode(&layer, 4, 0).unwrap())
        .example(Frame::encode(&FetchAnswer::default(), 5, 0).unwrap())
        .words([
            &[0xff; 4][..],
            &[0, 0, 0x10, 0],
            &[1, 0, 0, 0],
            &[0x80, 0x80, 1],
        ])
        .run(|input| {
            let whole = frames(input, input.len().max(1));
            assert_eq!(texts(&whole), texts(&frames(input, 5)), "cut otherwise");
            for frame in whole {
                assert!(frame.payload.len() <= MAX_PAYLOAD && frame.fds.is_empty());
                let _ = Event::decode(&frame);
                for again in [
                    twice::<Create>,
                    twice::<Created>,
                    twice::<Exec>,
                    twice::<Exited>,
                    twice::<Failure>,
                    twice::<Listing>,
                    twice::<Setup>,
                    twice::<Welcome>,
                    twice::<AddLayer>,
                    twice::<Fetch>,
                    twice::<FetchAnswer>,
                    twice::<LayerListing>,
                    twice::<LazyBegin>,
                    twice::<LazyStop>,
                    twice::<ReadFailed>,
                ] {
                    again(&frame.payload);
                }
            }
        });
}

fn twice<B: Body + PartialEq + std::fmt::Debug>(payload: &[u8]) {
    if let Ok(message) = B::decode(payload) {
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(B::decode(&written), Ok(message));
    }
}

fn texts(frames: &[Frame]) -> Vec<(u16, u32, &[u8])> {
    let mut texts = Vec::new();
    for frame in frames {
        texts.push((frame.kind, frame.request, &frame.payload[..]));
    }
    texts
}

fn frames(bytes: &[u8], step: usize) -> Vec<Frame> {
    let mut buffer = FrameBuffer::new();
    let mut found = Vec::new();
    for piece in bytes.chunks(step) {
        buffer.push(piece, []);
        loop {
            match buffer.pop() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}

/// A record of an exit is read as it was written, or refused.
#[test]
fn no_exit_record_breaks_the_reader() {
    Fuzz::new()
        .example("code=137 signal=9 oom=1 time_ns=1700000000123456789\n")
        .example("code=0 signal=0 oom=0 time_ns=1\n")
        .words(["code=", "time_ns=", "=", "\n", "-1", "99999999999999999999"])
        .run(|input| {
            if let Ok(status) = String::from_utf8_lossy(input).parse::<ExitStatus>() {
                assert_eq!(status.to_string().parse(), Ok(status));
            }
        });
}
