//! What its standard streams are, as terminals.

use rustix::termios::{isatty, tcgetwinsize, ttyname};
use serde_json::{Value, json};

use crate::files::said;

pub(crate) fn facts() -> Value {
    let input = std::io::stdin();
    if !isatty(&input) {
        return json!({ "is": false });
    }
    let name = ttyname(&input, Vec::new());
    let size = tcgetwinsize(&input);
    let controlling = std::fs::File::open("/dev/tty");
    json!({
        "is": true,
        "name": name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        "size": size.map(|size| [size.ws_row, size.ws_col]).unwrap_or_default(),
        "controlling": controlling.map_or_else(|error| said(&error), |_| "opens".to_owned()),
        "output": isatty(std::io::stdout()),
        "errors": isatty(std::io::stderr()),
        "group": rustix::termios::tcgetpgrp(&input).is_ok_and(|group| group == rustix::process::getpgrp()),
    })
}
