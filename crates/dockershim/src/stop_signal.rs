//! Conversion of signals between the CRI's numbers and the engine's names.

use orlop_cri_api::v1::Signal;

/// Returns the engine's name of a signal; `None` for the runtime's default.
pub(crate) fn named(signal: Signal) -> Option<String> {
    let name = match signal {
        Signal::RuntimeDefault => return None,
        other => other.as_str_name(),
    };
    // The engine writes SIGRTMINPLUS3 as SIGRTMIN+3.
    Some(name.replace("PLUS", "+").replace("MINUS", "-"))
}

/// Returns the CRI's number of a signal name of the engine or an image.
pub(crate) fn parsed(text: &str) -> Signal {
    if text.is_empty() {
        return Signal::Sigterm;
    }
    if let Ok(number) = text.parse::<i32>() {
        return numbered(number);
    }
    let name = text.to_ascii_uppercase();
    let name = name.trim_start_matches("SIG");
    let name = name.replace('+', "PLUS").replace('-', "MINUS");
    Signal::from_str_name(&format!("SIG{name}")).unwrap_or(Signal::RuntimeDefault)
}

/// Converts a signal number, which images may use; supports the usual stop signals.
fn numbered(number: i32) -> Signal {
    match number {
        1 => Signal::Sighup,
        2 => Signal::Sigint,
        3 => Signal::Sigquit,
        6 => Signal::Sigabrt,
        9 => Signal::Sigkill,
        10 => Signal::Sigusr1,
        12 => Signal::Sigusr2,
        15 => Signal::Sigterm,
        28 => Signal::Sigwinch,
        34 => Signal::Sigrtmin,
        37 => Signal::Sigrtminplus3,
        _ => Signal::RuntimeDefault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_the_signals_they_are() {
        for signal in [
            Signal::Sigusr1,
            Signal::Sigrtminplus3,
            Signal::Sigrtmaxminus2,
        ] {
            assert_eq!(parsed(&named(signal).unwrap()), signal);
        }
        assert_eq!(named(Signal::Sigrtminplus3).unwrap(), "SIGRTMIN+3");
        assert_eq!(named(Signal::RuntimeDefault), None);
        assert_eq!(parsed("QUIT"), Signal::Sigquit);
        assert_eq!(parsed("3"), Signal::Sigquit);
        assert_eq!(parsed(""), Signal::Sigterm);
    }
}
