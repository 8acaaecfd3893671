//! ttrpc messages of containerd's shims.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Answers all calls at a socket with an empty message and reports them, for as long as this process lives. Shims send
/// their events there, and do not start without it.
pub(crate) fn hear_events(
    socket: &Path,
    heard: impl Fn(&[u8]) + Clone + Send + 'static,
) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    std::thread::spawn(move || {
        for mut shim in listener.incoming().map_while(io::Result::ok) {
            let heard = heard.clone();
            std::thread::spawn(move || orlop_ttrpc::answer_all(&mut shim, heard));
        }
    });
    Ok(())
}
