//! A bounded run of fuzzing: no input panics, hangs or outlives its
//! peer.

use orlop_streaming::fuzzing;
use orlop_testkit::{Chance, Fuzz};
use proptest::collection::vec;
use proptest::prelude::*;

/// Frames that look right up to a point, which gets further than noise does.
fn spdy_frame() -> impl Strategy<Value = Vec<u8>> {
    let control =
        (0_u8..12, any::<u8>(), vec(any::<u8>(), 0..40)).prop_map(|(kind, flags, payload)| {
            let mut frame = vec![0x80, 3, 0, kind, flags, 0, 0, payload.len() as u8];
            frame.extend(payload);
            frame
        });
    let opening = (
        0_u8..12,
        prop_oneof![Just(HEADERS.to_vec()), Just(b"\0\0\xff\xff".to_vec())],
    )
        .prop_map(|(stream, block)| {
            let mut frame = vec![0x80, 3, 0, 1, 0, 0, 0, 10 + block.len() as u8];
            frame.extend([0, 0, 0, stream, 0, 0, 0, 0, 0, 0]);
            frame.extend(block);
            frame
        });
    let data = (0_u8..12, 0_u8..2, vec(any::<u8>(), 0..300)).prop_map(|(stream, fin, payload)| {
        let length = (payload.len() as u32).to_be_bytes();
        let mut frame = vec![0, 0, 0, stream, fin, length[1], length[2], length[3]];
        frame.extend(payload);
        frame
    });
    prop_oneof![control, opening, data, vec(any::<u8>(), 0..20)]
}

/// `streamtype: error`, as the first block of a connection.
const HEADERS: &[u8] = &[
    0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0xa6, 0x23, 0x46, 0x70, 0x3a, 0x2b, 0x29, 0x4a, 0x4d,
    0xcc, 0x85, 0x16, 0x25, 0xac, 0xa9, 0xa0, 0x80, 0x06, 0x00, 0x00, 0x00, 0xff, 0xff,
];

fn websocket_frame() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        Just(0_u8),
        Just(1),
        Just(2),
        Just(8),
        Just(9),
        Just(10),
        any::<u8>()
    ];
    let framed = (any::<bool>(), opcode, any::<bool>(), vec(0_u8..6, 0..120)).prop_map(
        |(fin, opcode, masked, payload)| {
            let mut frame = vec![u8::from(fin) << 7 | opcode];
            frame.push(u8::from(masked) << 7 | payload.len() as u8);
            if masked {
                frame.extend([0; 4]);
            }
            frame.extend(payload);
            frame
        },
    );
    prop_oneof![4 => framed, 1 => vec(any::<u8>(), 0..20)]
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(test);
}

/// Whole conversations, changed again and again (`ORLOP_FUZZ_SECONDS` for more).
#[test]
fn no_changed_spdy_conversation_can_break_a_connection() {
    let mut opening = vec![0x80, 3, 0, 1, 0, 0, 0, 10 + HEADERS.len() as u8];
    opening.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    opening.extend(HEADERS);
    let data = [0, 0, 0, 1, 0, 0, 0, 2, b'h', b'i'];
    let end = [0, 0, 0, 1, 1, 0, 0, 0];
    let ping = [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
    let settings = [
        0x80, 3, 0, 4, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 1, 0,
    ];
    let window = [
        0x80, 3, 0, 9, 0, 0, 0, 8, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff,
    ];
    let reset = [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 5];
    let goaway = [0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0];
    Fuzz::new()
        .example([&opening[..], &data, &data, &end].concat())
        .example([&settings[..], &opening, &window, &ping, &data, &reset].concat())
        .example([&opening[..], &opening, &data, &goaway].concat())
        .words([&opening[..], &data, &end, &ping, &window, &reset, &goaway])
        .repair(mend_spdy)
        .run(|input| run(fuzzing::spdy(input)));
}

/// Makes the lengths of the frames right as far as they go.
fn mend_spdy(input: &mut Vec<u8>, chance: &mut Chance) {
    let mut at = 0;
    while input.len() >= at + 8 {
        let left = input.len() - at - 8;
        let length = u32::from_be_bytes([0, input[at + 5], input[at + 6], input[at + 7]]) as usize;
        let length = if length > left {
            chance.below(left + 1)
        } else {
            length
        };
        input[at + 5..at + 8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        at += 8 + length;
    }
    input.truncate(at);
}

#[test]
fn no_changed_websocket_conversation_can_break_a_connection() {
    let frame = |opcode: u8, payload: &[u8]| {
        let head = [0x80 | opcode, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        [&head[..], payload].concat()
    };
    let plain =
        |opcode: u8, payload: &[u8]| [&[0x80 | opcode, payload.len() as u8][..], payload].concat();
    let input = frame(2, b"\0input");
    let resize = frame(2, b"\x04{\"Width\":80,\"Height\":24}");
    let close = frame(8, &[0x03, 0xe8]);
    let half_close = frame(2, &[255, 0]);
    let part = [0x02, 0x83, 0, 0, 0, 0, 0, b'a', b'b'];
    Fuzz::new()
        .example([&input[..], &resize, &half_close, &close].concat())
        .example([&part[..], &frame(0, b"rest"), &frame(9, b"ping"), &input].concat())
        .example([plain(2, b"\0input"), plain(1, b"0aGk="), plain(8, b"")].concat())
        .words([&input[..], &resize, &close, &half_close, &part])
        .words([
            &[0x82, 0xfe, 0xff, 0xff][..],
            &[0x82, 0xff, 0x7f, 0xff, 0xff, 0xff],
        ])
        .run(|input| run(fuzzing::websocket(input)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_spdy_peer_can_break_a_connection(frames in vec(spdy_frame(), 0..12)) {
        run(fuzzing::spdy(&frames.concat()));
    }

    #[test]
    fn no_websocket_peer_can_break_a_connection(frames in vec(websocket_frame(), 0..12)) {
        run(fuzzing::websocket(&frames.concat()));
    }
}
