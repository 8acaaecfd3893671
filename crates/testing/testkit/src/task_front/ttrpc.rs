//! ttrpc server of the front.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use orlop_containerd_api::Message;
use orlop_ttrpc::{
    CLOSED, DATA, Frame, NO_DATA, OPEN, REQUEST, Request, Status, read_whole_frame, respond,
};

use super::streams::Stream;
use super::{STREAMING, TaskFront};

pub(super) fn serve(front: Arc<TaskFront>, listener: UnixListener) {
    thread::spawn(move || {
        for client in listener.incoming().map_while(io::Result::ok) {
            let front = Arc::clone(&front);
            thread::spawn(move || answer(&front, client));
        }
    });
}

/// A new stream, which is named by its first message.
enum Begun {
    Nameless(Stream, Sender<Vec<u8>>),
    Named(Sender<Vec<u8>>),
}

fn answer(front: &Arc<TaskFront>, mut client: UnixStream) -> io::Result<()> {
    let answers = Arc::new(Mutex::new(client.try_clone()?));
    let mut streams: HashMap<u32, Begun> = HashMap::new();
    loop {
        let frame = read_whole_frame(&mut client)?;
        let call = frame.call;
        if frame.kind == DATA {
            match streams.remove(&call) {
                _ if frame.flags & NO_DATA != 0 => {}
                Some(Begun::Nameless(stream, to)) => {
                    streams.insert(call, Begun::Named(to));
                    front.register(&frame.payload, stream);
                }
                Some(Begun::Named(to)) => {
                    let _ = to.send(frame.payload);
                    if frame.flags & CLOSED == 0 {
                        streams.insert(call, Begun::Named(to));
                    }
                }
                None => {}
            }
            continue;
        }
        assert_eq!(frame.kind, REQUEST);
        let Request {
            service,
            method,
            payload,
            ..
        } = Request::decode(&*frame.payload)?;
        if frame.flags == OPEN && service == STREAMING {
            let (to, hear) = channel();
            let say = Answers {
                call,
                to: Arc::clone(&answers),
            };
            let say = Box::new(move |said| say.data(0, said));
            streams.insert(call, Begun::Nameless(Stream { say, hear }, to));
            continue;
        }
        let (front, answers) = (Arc::clone(front), Arc::clone(&answers));
        thread::spawn(move || {
            let called = front.call(&service, &method, payload);
            let called = called.map_err(|(code, message)| Status::new(code, message));
            respond(&mut answers.lock().expect("the client"), call, &called)
        });
    }
}

/// Sender of a stream. Dropping it ends the stream.
struct Answers {
    call: u32,
    to: Arc<Mutex<UnixStream>>,
}

impl Answers {
    fn data(&self, flags: u8, payload: Vec<u8>) -> bool {
        let frame = Frame {
            call: self.call,
            kind: DATA,
            flags,
            payload,
        };
        let mut to = self.to.lock().expect("the client");
        frame.write(&mut *to).is_ok()
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.data(CLOSED | NO_DATA, Vec::new());
    }
}
