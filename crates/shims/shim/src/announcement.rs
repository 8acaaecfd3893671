//! A process that stands for a container announces itself to the supervisor of its pod. The daemon then sends its
//! questions to the supervisor.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use crate::error::{Error, Result};
use crate::question::{self, Question};
use crate::state_dir::PodDir;

/// Nobody has more to say.
const LONGEST_WORDS: u64 = 64 << 10;
const DONE: &str = "done";

/// Tells the supervisor, as long as it is held, that one stands for a process.
#[derive(Debug)]
pub(crate) struct Announcement(UnixStream);

impl Announcement {
    pub(crate) fn make(pod: &PodDir, id: &str, exec: &str) -> Result<Self> {
        let path = pod.supervisor();
        let failed = |doing| Error::file(doing, &path);
        let mut socket = UnixStream::connect(&path).map_err(failed("connecting to"))?;
        let word = format!("{id}\n{exec}\n");
        socket
            .write_all(word.as_bytes())
            .map_err(failed("writing to"))?;
        Ok(Self(socket))
    }

    pub(crate) fn done(mut self) {
        let _ = writeln!(self.0, "{DONE}");
    }
}

/// A process that was stood for.
pub(crate) struct Watched {
    pub(crate) id: String,
    pub(crate) exec: String,
    /// By itself; else whoever stood for it was killed.
    pub(crate) ended: bool,
}

/// Listens to one who stands for a process, until it leaves; or to the daemon, which asks something.
pub(crate) fn watched(
    mut socket: UnixStream,
    answer: impl FnOnce(Question, &str) -> Option<String>,
) -> Option<Watched> {
    let mut lines = BufReader::new(socket.try_clone().ok()?.take(LONGEST_WORDS))
        .lines()
        .map_while(std::io::Result::ok);
    let first = lines.next()?;
    if let Some(question) = Question::of(&first) {
        if let Some(answer) = answer(question, &lines.next()?) {
            let _ = socket.write_all(answer.as_bytes());
            if question::tells_the_end(question, &answer) {
                // Its own end is the sandbox's.
                std::process::exit(0);
            }
        }
        return None;
    }
    Some(Watched {
        id: first,
        exec: lines.next()?,
        ended: lines.next().as_deref() == Some(DONE),
    })
}
