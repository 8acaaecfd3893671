//! Frames of ttrpc, and the messages in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_containerd_api::task::{CreateTaskRequest, StateResponse};
use orlop_containerd_api::types::Envelope;
use orlop_containerd_api::{Any, Message};
use orlop_ttrpc::{LARGEST, Request, parse_response, read_whole_frame};

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(frame) = read_whole_frame(&mut rest) {
        assert!(frame.payload.len() <= LARGEST);
        let _ = parse_response("Method", &frame.payload);
        if let Ok(request) = Request::decode(&*frame.payload) {
            let _ = CreateTaskRequest::decode(&*request.payload);
            let _ = Any::decode(&*request.payload);
        }
        let _ = StateResponse::decode(&*frame.payload);
        let _ = Envelope::decode(&*frame.payload);
        let mut written = Vec::new();
        frame.write(&mut written).unwrap();
        assert_eq!(read_whole_frame(&mut &written[..]).unwrap(), frame);
    }
});
