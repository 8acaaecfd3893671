//! Programs of others that are asked for something: told it in a few words, and listened to within a
//! limit and for a time.

use std::io::{Error, ErrorKind, Result};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, Command};

use crate::limit::started;

/// How much is read of a program's complaints.
const COMPLAINT: u64 = 4096;

/// How long after a program's end its last complaints are waited for: who has inherited its standard
/// error may hold it for ever.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long one that is just being installed is waited for each time, and how often.
const BUSY: Duration = Duration::from_millis(20);
const BUSY_TIMES: u32 = 10;

/// How often a program was started that somebody still writes to, and is about to close.
#[derive(Debug, Default)]
pub struct Retries(u32);

impl Retries {
    /// After which time it is started again. Any other failure is given back, and this one at last.
    pub fn pause(&mut self, error: Error) -> Result<Duration> {
        if error.kind() != ErrorKind::ExecutableFileBusy || self.0 == BUSY_TIMES {
            return Err(error);
        }
        self.0 += 1;
        Ok(BUSY)
    }
}

/// What a program answered.
#[derive(Debug)]
pub struct Said {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub answer: Vec<u8>,
    /// The start of its standard error.
    pub complaint: Vec<u8>,
}

/// Starts a program, writes the question to its standard input, and reads what it answers, no more
/// than `limit` bytes. One that has not ended after `patience`, that answers more, or that nobody
/// waits for any more is killed.
pub async fn ask(
    mut program: Command,
    question: &[u8],
    limit: u64,
    patience: Duration,
) -> Result<Said> {
    let asking = async {
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut retries = Retries::default();
        let mut child = loop {
            match started(program.spawn()) {
                Ok(child) => break child,
                Err(error) => tokio::time::sleep(retries.pause(error)?).await,
            }
        };
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let tell = async {
            if let Some(mut stdin) = stdin {
                // One that does not care to read is fine.
                let _ = stdin.write_all(question).await;
            }
        };
        let listen = async {
            let mut answer = Vec::new();
            read_start(stdout, limit.saturating_add(1), &mut answer).await?;
            if answer.len() as u64 > limit {
                let problem = format!("it printed more than {limit} bytes");
                return Err(Error::new(ErrorKind::FileTooLarge, problem));
            }
            Ok((answer, child.wait().await?))
        };
        let mut complaint = Vec::new();
        let (answer, status) = {
            let mut asked = pin!(async { tokio::join!(tell, listen).1 });
            let mut complain = pin!(hear_out(stderr, &mut complaint));
            let mut is_over = false;
            let done = loop {
                tokio::select! {
                    done = &mut asked => break done?,
                    () = &mut complain, if !is_over => is_over = true,
                }
            };
            if !is_over {
                let _ = tokio::time::timeout(LAST_WORDS, complain).await;
            }
            done
        };
        Ok(Said {
            status,
            answer,
            complaint,
        })
    };
    tokio::time::timeout(patience, asking)
        .await
        .unwrap_or_else(|_| {
            let problem = format!("it did not answer within {patience:?}");
            Err(Error::new(ErrorKind::TimedOut, problem))
        })
}

/// Keeps the start of what a program complains, and lets it go on complaining.
async fn hear_out(stderr: Option<ChildStderr>, complaint: &mut Vec<u8>) {
    if let Some(mut stderr) = stderr
        && read_start(Some(&mut stderr), COMPLAINT, complaint)
            .await
            .is_ok()
    {
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
async fn read_start(
    from: Option<impl AsyncRead + Unpin>,
    most: u64,
    read: &mut Vec<u8>,
) -> Result<()> {
    match from {
        Some(from) => from.take(most).read_to_end(read).await.map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SOON: Duration = Duration::from_secs(20);

    async fn say(script: &str, patience: Duration) -> Result<Said> {
        let mut program = Command::new("sh");
        program.args(["-c", script]);
        ask(program, b"who", 1000, patience).await
    }

    #[tokio::test]
    async fn a_program_hears_the_question_and_is_heard() {
        let said = say("cat; echo oh >&2; exit 3", SOON).await.unwrap();
        assert_eq!(said.answer, b"who");
        assert_eq!(said.complaint, b"oh\n");
        assert_eq!(said.status.code(), Some(3));
    }

    #[tokio::test]
    async fn one_that_complains_at_length_still_answers() {
        let said = say("head -c 1000000 /dev/zero >&2; echo yes", SOON).await;
        let said = said.unwrap();
        assert_eq!(said.answer, b"yes\n");
        assert_eq!(said.complaint.len() as u64, COMPLAINT);
        assert!(said.status.success());
    }

    #[tokio::test]
    async fn who_inherits_a_program_s_complaints_is_not_waited_for() {
        let started = Instant::now();
        let said = say("sleep 5 >/dev/null & echo yes", SOON).await.unwrap();
        assert_eq!(said.answer, b"yes\n");
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test]
    async fn one_that_never_stops_talking_is_cut_off() {
        let started = Instant::now();
        let error = say("exec cat /dev/zero", SOON).await.unwrap_err();
        assert!(error.to_string().contains("1000 bytes"), "{error}");
        assert!(started.elapsed() < SOON);
    }

    #[tokio::test]
    async fn one_that_is_just_being_written_is_asked_when_it_is() {
        use std::os::unix::fs::OpenOptionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o755);
        let mut file = options.open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"#!/bin/sh\necho yes\n").unwrap();
        let refused = ask(Command::new(&path), b"", 1000, SOON).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExecutableFileBusy);
        let closed = async {
            tokio::time::sleep(BUSY * 2).await;
            drop(file);
        };
        let (said, ()) = tokio::join!(ask(Command::new(&path), b"", 1000, SOON), closed);
        assert_eq!(said.unwrap().answer, b"yes\n");
    }

    #[tokio::test]
    async fn one_that_does_not_answer_is_not_waited_for() {
        let error = say("exec sleep 100", Duration::from_millis(100)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("100ms"), "{error}");
    }
}
