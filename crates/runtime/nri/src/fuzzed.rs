//! Bounded fuzz tests of the messages that plugins send.

use bytes::{BufMut as _, Bytes};
use orlop_testkit::Fuzz;
use orlop_ttrpc::{Request, Response};
use prost::Message as _;

use crate::frame::{Decoder, Kind, Line, MAX_MESSAGE, Message, encode};
use crate::v1alpha1::{CreateContainerResponse, RegisterPluginRequest, UpdateContainersRequest};

fn message(line: Line, stream: u32, kind: Kind, payload: Vec<u8>) -> Bytes {
    let payload = payload.into();
    encode(&Message {
        line,
        stream,
        kind,
        payload,
    })
}

/// Any input gives messages within their limit, needs more bytes, or is rejected. The messages do not depend on how the
/// bytes are split.
#[test]
fn no_plugin_s_bytes_break_the_connection() {
    let register = RegisterPluginRequest {
        plugin_name: "one".into(),
        plugin_idx: "00".into(),
        ..Default::default()
    };
    let request = Request {
        service: "nri.pkg.api.v1alpha1.Runtime".into(),
        method: "RegisterPlugin".into(),
        payload: register.encode_to_vec(),
        ..Default::default()
    };
    let response = Response {
        payload: CreateContainerResponse::default().encode_to_vec(),
        ..Default::default()
    };
    let call = message(Line::ToRuntime, 1, Kind::Request, request.encode_to_vec());
    let answer = message(Line::ToPlugin, 3, Kind::Response, response.encode_to_vec());
    Fuzz::new()
        .example([&call[..], &answer].concat())
        .example([&answer[..], &answer, &call].concat())
        .words([
            &[0, 0, 0, 1][..],
            &[0, 0, 0, 2],
            &[0, 0x40, 0, 0],
            &[0xff; 4],
        ])
        .run(|input| {
            let whole = messages(input, input.len().max(1));
            assert_eq!(whole, messages(input, 3), "cut otherwise");
            for message in whole {
                assert!(message.payload.len() <= MAX_MESSAGE);
                let request = Request::decode(message.payload.clone());
                let response = Response::decode(message.payload);
                let payload = request.map_or_else(|_| Vec::new(), |request| request.payload);
                let _ = RegisterPluginRequest::decode(&payload[..]);
                let _ = UpdateContainersRequest::decode(&payload[..]);
                let payload = response.map_or_else(|_| Vec::new(), |response| response.payload);
                let _ = CreateContainerResponse::decode(&payload[..]);
            }
        });
}

fn messages(bytes: &[u8], step: usize) -> Vec<Message> {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(step) {
        decoder.buffer().put_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}
