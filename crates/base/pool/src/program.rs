//! Runs external programs that answer a question on standard input, with limits for the size and time of the answer.

use std::io::{Error, ErrorKind, Result};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, Command};

use crate::limit::started;

/// Maximum number of bytes of a program's standard error that are read.
const COMPLAINT: u64 = 4096;

/// Time after a program's exit in which its standard error is read: a process that inherited it may hold it open
/// forever.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The pause before a program that is just being installed is started again, and the number of retries.
const BUSY: Duration = Duration::from_millis(20);
const BUSY_TIMES: u32 = 10;

/// Retries of a program that is still open for writing (ETXTBSY).
#[derive(Debug, Default)]
pub struct Retries(u32);

impl Retries {
    /// Returns the pause before the next retry. Returns any other error, and this one after the last retry.
    pub fn pause(&mut self, error: Error) -> Result<Duration> {
        if error.kind() != ErrorKind::ExecutableFileBusy || self.0 == BUSY_TIMES {
            return Err(error);
        }
        self.0 += 1;
        Ok(BUSY)
    }
}

/// The result of a program.
#[derive(Debug)]
pub struct Said {
    /// The exit status.
    pub status: ExitStatus,
    /// The complete standard output.
    pub answer: Vec<u8>,
    /// The start of standard error.
    pub complaint: Vec<u8>,
}

/// Starts a program, writes the question to its standard input, and reads at most `limit` bytes of its answer. Kills it
/// if it runs longer than `patience`, answers more, or the future is dropped.
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
                // It is no error if the program does not read its input.
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

/// Keeps the start of a program's standard error, and discards the rest.
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
