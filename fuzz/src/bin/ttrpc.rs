//! Frames of ttrpc, and the messages in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_ttrpc::{LARGEST, any, fields, parse_response, read_whole_frame, text};

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(frame) = read_whole_frame(&mut rest) {
        assert!(frame.payload.len() <= LARGEST);
        let _ = parse_response("Method", &frame.payload);
        for number in 1..12 {
            let _ = (text(&frame.payload, number), any(&frame.payload, number));
        }
        let mut written = Vec::new();
        frame.write(&mut written).unwrap();
        assert_eq!(read_whole_frame(&mut &written[..]).unwrap(), frame);
    }
    assert!(fields(data).count() <= data.len());
});
