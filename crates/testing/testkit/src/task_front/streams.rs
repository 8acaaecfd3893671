//! Streams of the transfer service: data in one direction, window updates in the other.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use orlop_containerd_api::transfer::{Data, WindowUpdate};
use orlop_containerd_api::{Any, Message};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const WINDOW: usize = 64 << 10;
const LIMIT: Duration = Duration::from_secs(10);

/// Server side of a stream.
pub(super) struct Stream {
    /// Sends a message; false if the client is gone.
    pub(super) say: Box<dyn FnMut(Vec<u8>) -> bool + Send>,
    /// Received messages; it ends when the client closes the stream.
    pub(super) hear: Receiver<Vec<u8>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a stream")
    }
}

/// Registered streams that are not connected yet.
#[derive(Debug, Default)]
pub(super) struct Streams {
    waiting: Mutex<HashMap<String, Stream>>,
    more: Condvar,
}

impl Streams {
    pub(super) fn register(&self, id: String, mut stream: Stream) {
        let mut waiting = self.waiting.lock().expect("the streams");
        assert!(!waiting.contains_key(&id), "there is a stream {id}");
        // The client waits for a first message.
        let empty = Any {
            type_url: "google.protobuf.Empty".into(),
            ..Any::default()
        };
        (stream.say)(empty.encode_to_vec());
        waiting.insert(id, stream);
        self.more.notify_all();
    }

    /// Returns the stream of that name, which must be registered already, as in containerd.
    pub(super) fn take(&self, id: &str) -> Stream {
        let mut waiting = self.waiting.lock().expect("the streams");
        waiting
            .remove(id)
            .unwrap_or_else(|| panic!("no stream {id}"))
    }
}

/// Connects a stream to a fifo.
pub(super) fn connect(stream: Stream, fifo: &Path, input: bool) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, fifo, FileType::Fifo, mode, 0).expect("a fifo");
    let fifo = fifo.to_owned();
    thread::spawn(move || {
        if input {
            let open = File::options().write(true).open(&fifo);
            take(stream, open.expect("the fifo"));
        } else {
            give(stream, File::open(&fifo).expect("the fifo"));
        }
        let _ = std::fs::remove_file(fifo);
    });
}

fn give(mut stream: Stream, mut from: File) {
    let mut room = 0;
    let mut bytes = vec![0; 32 << 10];
    loop {
        while room == 0 {
            match stream.hear.recv_timeout(LIMIT) {
                Ok(said) => room += update_in(&said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let most = room.min(bytes.len());
        match from.read(&mut bytes[..most]) {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                room -= read;
                let data = bytes[..read].to_vec();
                if !(stream.say)(Any::pack(&Data { data }).encode_to_vec()) {
                    return;
                }
            }
        }
        room += stream
            .hear
            .try_iter()
            .map(|said| update_in(&said))
            .sum::<usize>();
    }
}

fn update_in(said: &[u8]) -> usize {
    let said = Any::decode(said).expect("a message");
    let WindowUpdate { update } = said.unpack().expect("an update");
    update as usize
}

fn take(mut stream: Stream, mut to: File) {
    let mut room = 0;
    loop {
        if room < WINDOW {
            let update = WindowUpdate {
                update: WINDOW as i32,
            };
            if !(stream.say)(Any::pack(&update).encode_to_vec()) {
                return;
            }
            room += WINDOW;
        }
        let Ok(said) = stream.hear.recv() else {
            return;
        };
        let said = Any::decode(&*said).expect("a message");
        let Data { data } = said.unpack().expect("data");
        assert!(data.len() <= room, "more than there is room for");
        room -= data.len();
        if to.write_all(&data).is_err() {
            return;
        }
    }
}
