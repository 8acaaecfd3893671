//! `Platform`: what containers of this pod run on.

use orlop_ttrpc::Writer;

pub(super) fn answer() -> Vec<u8> {
    // As Go calls it.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let platform = Writer::default().text(1, "linux").text(2, architecture);
    Writer::default().message(1, &platform.done()).done()
}
