//! What the daemon, its keepers and the server of lazy layers tell each other: read as it is written.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use orlop_keeper_protocol::{
    AddLayer, Body, Create, Created, Event, Exec, ExitStatus, Exited, Failure, FetchAnswer, Frame,
    FrameBuffer, LayerListing, Listing, MAX_PAYLOAD, Setup, Welcome,
};

fuzz_target!(|data: &[u8]| {
    if let Ok(status) = String::from_utf8_lossy(data).parse::<ExitStatus>() {
        assert_eq!(status.to_string().parse(), Ok(status));
    }
    let mut buffer = FrameBuffer::new();
    buffer.push(data, []);
    while let Ok(Some(frame)) = buffer.pop() {
        look_at(&frame);
    }
});

fn look_at(frame: &Frame) {
    assert!(frame.payload.len() <= MAX_PAYLOAD && frame.fds.is_empty());
    let _ = Event::decode(frame);
    for twice in [
        twice::<AddLayer>,
        twice::<Create>,
        twice::<Created>,
        twice::<Exec>,
        twice::<Exited>,
        twice::<Failure>,
        twice::<FetchAnswer>,
        twice::<LayerListing>,
        twice::<Listing>,
        twice::<Setup>,
        twice::<Welcome>,
    ] {
        twice(&frame.payload);
    }
}

fn twice<B: Body + PartialEq + Debug>(payload: &[u8]) {
    if let Ok(message) = B::decode(payload) {
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(B::decode(&written), Ok(message));
    }
}
