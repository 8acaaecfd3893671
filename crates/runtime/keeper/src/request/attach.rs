//! Attaches to a container's streams and detaches from them.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{Attach, Attached, Detach, Done, Failure, FailureKind};

use crate::attachment::{Attachment, Follower};
use crate::failure::{failure, no_container};
use crate::keeper::Keeper;
use crate::pipe::nonblocking;
use crate::reactor::{Interest, Source, Stream, Watch};

impl Keeper {
    pub(super) fn attach(
        &mut self,
        request: Attach,
        fds: Vec<OwnedFd>,
    ) -> Result<Attached, Failure> {
        let id = &request.container;
        let container = self.container_key(id).ok_or_else(|| no_container(id))?;
        let attached = self.containers.get(&container);
        let attached = attached.ok_or_else(|| no_container(id))?;
        if !attached.is_alive() {
            let message = format!("container {id} is not running");
            return Err(failure(FailureKind::WrongState, message));
        }
        let has = (
            attached.input.is_some(),
            attached.out.is_some(),
            attached.err.is_some(),
        );
        let key = self.key();
        let mut fds = fds.into_iter();
        let mut take = |wanted: bool, source, interest| -> Result<Option<Watch>, Failure> {
            if !wanted {
                return Ok(None);
            }
            let Some(fd) = fds.next() else {
                let message = "the attach request has no file descriptors";
                return Err(failure(FailureKind::Invalid, message));
            };
            let watch = nonblocking(&fd)
                .and_then(|()| Ok(Watch::new(&self.reactor, fd, source, interest)?));
            watch.map(Some).map_err(|error| {
                let message = format!("cannot take over a stream of the attach request: {error}");
                failure(FailureKind::Invalid, message)
            })
        };
        let stdin = take(request.stdin, Source::AttachInput(key), Interest::Read)?;
        let source = Source::AttachOutput(key, Stream::Out);
        let out = take(request.stdout, source, Interest::Nothing)?;
        let source = Source::AttachOutput(key, Stream::Err);
        let err = take(request.stderr, source, Interest::Nothing)?;
        // Streams that the container does not have (any more) end at once.
        let follower = |watch| Follower::new(watch, request.patient);
        let attachment = Attachment {
            container,
            stdin: stdin.filter(|_| has.0),
            out: out.filter(|_| has.1).map(follower),
            err: err.filter(|_| has.2).map(follower),
        };
        self.attachments.insert(key, attachment);
        Ok(Attached { attachment: key })
    }

    pub(super) fn detach(&mut self, request: Detach, _: Vec<OwnedFd>) -> Result<Done, Failure> {
        if let Some(attachment) = self.attachments.remove(&request.attachment) {
            self.read_or_wait(attachment.container);
        }
        Ok(Done {})
    }
}
