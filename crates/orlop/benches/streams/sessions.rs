//! What it costs to open a session, and many at once.

use std::time::{Duration, Instant};

use orlop_streaming::client::{ClientStreams, Protocol, exec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::report::Report;
use crate::{Size, Subject, outputs, over};

/// A command in a session of its own, with the opening of the session.
pub(crate) const COMMAND: &str = "command by a session";
/// Interactive sessions that did not do what they should.
pub(crate) const CROWD_FAILED: &str = "failed side by side";

pub(crate) async fn run(subject: &Subject, size: Size, report: &mut Report) {
    let name = subject.name;
    for _ in 0..size.sessions {
        let start = Instant::now();
        let bare = subject.cri.exec(&subject.container, &["true"]).await;
        bare.expect("a command");
        let bare = start.elapsed();
        report.time("command by ExecSync", name, bare);
        let start = Instant::now();
        let url = subject.url(&["true"], false).await;
        let code = exec(&url, &over(Protocol::Spdy), outputs()).await;
        assert_eq!(code.expect("a session"), 0);
        let whole = start.elapsed();
        report.time(COMMAND, name, whole);
        // In turns: what slows one slows the other.
        let added = whole.as_secs_f64() - bare.as_secs_f64();
        report.number("added by the session", "ms", name, added * 1000.0);
    }
    let start = Instant::now();
    let mut crowd = Vec::new();
    for number in 0..size.crowd {
        let url = subject.url(&["cat"], true).await;
        crowd.push(tokio::spawn(talk(url, number)));
    }
    let mut failed = 0;
    for one in crowd {
        failed += usize::from(!matches!(one.await, Ok(true)));
    }
    report.time("all side by side", name, start.elapsed());
    report.number(CROWD_FAILED, "sessions", name, failed as f64);
}

/// Says two lines and hears them again.
async fn talk(url: String, number: usize) -> bool {
    let (mut keyboard, stdin) = tokio::io::duplex(64);
    let (mut screen, stdout) = tokio::io::duplex(64);
    let streams = ClientStreams {
        stdin: Some(Box::new(stdin)),
        stdout: Some(Box::new(stdout)),
        ..outputs()
    };
    let dialogue = async move {
        for line in ["first", "second"] {
            let text = format!("{line} {number}\n");
            keyboard.write_all(text.as_bytes()).await.ok()?;
            let mut heard = vec![0; text.len()];
            screen.read_exact(&mut heard).await.ok()?;
            (heard == text.as_bytes()).then_some(())?;
        }
        drop(keyboard);
        screen.read_to_end(&mut Vec::new()).await.ok()
    };
    let options = over(Protocol::Spdy);
    let both = async { tokio::join!(exec(&url, &options, streams), dialogue) };
    match tokio::time::timeout(Duration::from_mins(3), both).await {
        Ok((code, Some(0))) => matches!(code, Ok(0)),
        _ => false,
    }
}
