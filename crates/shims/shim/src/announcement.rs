//! Announcement of a proxy process to the supervisor of its pod, which also receives the daemon's questions.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use crate::error::{Error, Result};
use crate::question::{self, Question};
use crate::state_dir::PodDir;

/// Maximum size of a message.
const LONGEST_WORDS: u64 = 64 << 10;
const DONE: &str = "done";

/// Tells the supervisor, as long as it is held, that a proxy stands for a process.
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

/// A process whose proxy has left.
pub(crate) struct Watched {
    pub(crate) id: String,
    pub(crate) exec: String,
    /// Whether the process exited by itself; otherwise its proxy was killed.
    pub(crate) ended: bool,
}

/// Waits on a proxy's connection until the proxy leaves; on the daemon's connection, answers its question.
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
                // The exit of the supervisor is the exit of the sandbox.
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
