//! A thread that reads requests and answers them.

use rustix::io::Errno;

use crate::answer::Answers;
use crate::fuse::{Entries, ROOT, Reply, Request, opcode};
use crate::journal::RequestSlot;
use crate::session::Session;
use crate::waiting::Read;

/// Maximum size of one directory listing.
const LISTING_MOST: usize = 64 << 10;

/// Answers requests until the session ends; the request left in the buffer comes first.
pub(crate) fn run(session: &Session, mut slot: RequestSlot) {
    let mut answers = Answers::default();
    if slot.is_full() {
        answer(session, slot.buffer(), &mut answers);
    }
    loop {
        slot.clear();
        match rustix::io::read(&session.fuse, slot.buffer()) {
            Ok(count) => {
                let buffer = slot.buffer();
                let count = count.min(buffer.len());
                answer(session, &buffer[..count], &mut answers);
            }
            // The requesting thread withdrew the request during the read.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => {
                if errno != Errno::NODEV {
                    eprintln!("orlop-lazy: cannot read requests: {errno}");
                }
                session.end();
                return;
            }
        }
    }
}

fn answer(session: &Session, bytes: &[u8], answers: &mut Answers) {
    let Some(request) = Request::parse(bytes) else {
        return;
    };
    if let Err(errno) = carry_out(session, &request, answers) {
        Reply::error(request.header.unique, errno).send(&session.fuse);
    }
}

fn carry_out(session: &Session, request: &Request<'_>, answers: &mut Answers) -> Result<(), Errno> {
    let header = request.header;
    let unique = header.unique;
    let reply = match header.opcode {
        opcode::READ => {
            let (offset, size) = request.extent().ok_or(Errno::INVAL)?;
            let read = Read {
                unique,
                node: header.node,
                offset,
                size,
                pid: header.pid,
            };
            session.read(read, answers);
            return Ok(());
        }
        // These requests have no reply.
        opcode::INTERRUPT => {
            if let Some(unique) = request.word64(0) {
                session.signalled(unique);
            }
            return Ok(());
        }
        opcode::FORGET => {
            forget(session, header.node);
            return Ok(());
        }
        opcode::BATCH_FORGET => {
            request.forgotten().for_each(|node| forget(session, node));
            return Ok(());
        }
        opcode::LOOKUP => {
            let name = request.name().ok_or(Errno::NOENT)?;
            if header.node != ROOT {
                return Err(Errno::NOTDIR);
            }
            let layer = session.layers.read().by_key(name).ok_or(Errno::NOENT)?;
            Reply::entry(unique, layer.about())
        }
        opcode::GETATTR => {
            let about = session.layers.read().about(header.node);
            Reply::attributes(unique, about.ok_or(Errno::STALE)?)
        }
        opcode::OPEN => {
            let layer = session.layers.read().by_node(header.node);
            layer.ok_or(Errno::STALE)?;
            Reply::opened(unique)
        }
        opcode::OPENDIR => Reply::opened_directory(unique),
        opcode::READDIR => {
            let (after, size) = request.extent().ok_or(Errno::INVAL)?;
            list(session, after, size as usize).reply(unique)
        }
        opcode::STATFS => Reply::sizes(unique),
        opcode::RELEASE | opcode::RELEASEDIR | opcode::DESTROY => Reply::done(unique),
        _ => return Err(Errno::NOSYS),
    };
    reply.send(&session.fuse);
    Ok(())
}

fn forget(session: &Session, node: u64) {
    if session.layers.read().is_removed(node) {
        session.layers.write().forgotten(node);
    }
}

/// Lists the entries after this number; the number of a layer is its node number.
fn list(session: &Session, after: u64, size: usize) -> Entries {
    let mut entries = Entries::new(size.min(LISTING_MOST));
    for (number, name) in [(1, "."), (2, "..")] {
        if after < number && !entries.add(ROOT, number, name) {
            return entries;
        }
    }
    for layer in session.layers.read().named_after(after) {
        let node = layer.entry.node;
        if !entries.add(node, node, &layer.entry.key) {
            break;
        }
    }
    entries
}
