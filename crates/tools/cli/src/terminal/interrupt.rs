//! Interrupts of calls that make something: the runtime goes on with such a call when its client
//! leaves, so what it makes would be left behind.

use std::fmt::Display;
use std::future::Future;
use std::io;

use anyhow::{anyhow, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Returns when the user, or whoever started us, wants it to end.
pub(crate) async fn received() -> io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminated.recv() => Ok(()),
    }
}

/// Awaits a call that makes something. When it is interrupted the call's end is awaited all the
/// same, and what it made is undone; a second interrupt leaves it.
pub(crate) async fn or_undo<T, E, U>(
    make: impl Future<Output = Result<T, E>>,
    undo: impl FnOnce(T) -> U,
) -> anyhow::Result<T>
where
    E: Into<anyhow::Error>,
    T: Display,
    U: Future<Output = anyhow::Result<()>>,
{
    tokio::pin!(make);
    tokio::select! {
        made = &mut make => return made.map_err(Into::into),
        interrupt = received() => interrupt?,
    }
    say!(
        "interrupted; waiting for the runtime to finish, then removing the new object (interrupt \
         again to exit now)"
    );
    let made = tokio::select! {
        made = &mut make => made,
        _ = received() => bail!("interrupted; the runtime may still create the object"),
    };
    let Ok(made) = made else {
        bail!("interrupted; nothing was created");
    };
    let name = made.to_string();
    match undo(made).await {
        Ok(()) => Err(anyhow!("interrupted; {name} was removed")),
        Err(error) => Err(error.context(format!("interrupted, and {name} was not removed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_made_undisturbed_is_kept() {
        let make = async { Ok::<_, anyhow::Error>("pod") };
        let made = or_undo(make, |_| async { panic!("undone") }).await;
        assert_eq!(made.unwrap(), "pod");
    }
}
