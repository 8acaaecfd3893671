//! The stop signal of a container.

use std::fmt;

use orlop_cri_api::v1;

use super::Error;

/// The first and last real-time signal, as C libraries number them.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// Names and numbers; if two names have one number, the usual one comes first.
const NAMES: [(&str, i32); 34] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("IOT", libc::SIGIOT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// A signal by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StopSignal(i32);

impl StopSignal {
    /// The default stop signal.
    pub const TERM: Self = Self(libc::SIGTERM);

    /// Returns the signal of a container: the request's, else the image's, else `SIGTERM`.
    ///
    /// An invalid signal in an image counts as none.
    pub fn of_container(
        requested: i32,
        image: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let requested = v1::Signal::try_from(requested).map_err(|_| {
            Error::invalid("config.stop_signal", format!("unknown signal {requested}"))
        })?;
        if let Some(signal) = Self::from_cri(requested) {
            return Ok(signal);
        }
        if image.is_empty() {
            return Ok(Self::TERM);
        }
        Ok(Self::parse(image).unwrap_or_else(|| {
            warnings.push(format!(
                "the image's STOPSIGNAL {image:?} is not a signal; using TERM"
            ));
            Self::TERM
        }))
    }

    /// Parses `15`, `TERM`, `SIGTERM`, `SIGRTMIN+3` or `SIGRTMAX-2`, in upper or lower case.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse::<i32>() {
            return (1..=RTMAX).contains(&number).then_some(Self(number));
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let offset = |rest: &str, sign: char| match rest.strip_prefix(sign) {
            Some(digits) => digits.parse::<i32>().ok(),
            None => rest.is_empty().then_some(0),
        };
        let number = if let Some(rest) = name.strip_prefix("RTMIN") {
            RTMIN + offset(rest, '+')?
        } else if let Some(rest) = name.strip_prefix("RTMAX") {
            RTMAX - offset(rest, '-')?
        } else {
            NAMES.iter().find(|(own, _)| *own == name)?.1
        };
        let real_time = name.starts_with("RT");
        (!real_time || (RTMIN..=RTMAX).contains(&number)).then_some(Self(number))
    }

    /// Converts CRI's signal; `None` for its "runtime default".
    pub fn from_cri(signal: v1::Signal) -> Option<Self> {
        let name = signal.as_str_name();
        Self::parse(&name.replace("PLUS", "+").replace("MINUS", "-"))
    }

    /// Converts the signal to CRI's enumeration.
    pub fn to_cri(self) -> v1::Signal {
        let name = self.to_string().replace('+', "PLUS").replace('-', "MINUS");
        v1::Signal::from_str_name(&name).unwrap_or(v1::Signal::RuntimeDefault)
    }

    /// Returns the number for `kill(2)`.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for StopSignal {
    /// Writes the usual name, as `SIGTERM`; real-time signals relative to the nearer end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        if let Some((name, _)) = NAMES.iter().find(|(_, own)| *own == number) {
            return write!(f, "SIG{name}");
        }
        match number {
            RTMIN => f.write_str("SIGRTMIN"),
            RTMAX => f.write_str("SIGRTMAX"),
            _ if (RTMIN..=RTMIN + 15).contains(&number) => {
                write!(f, "SIGRTMIN+{}", number - RTMIN)
            }
            _ if (RTMAX - 14..RTMAX).contains(&number) => write!(f, "SIGRTMAX-{}", RTMAX - number),
            _ => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_understood() {
        for (text, number) in [
            ("15", 15),
            ("SIGTERM", 15),
            ("term", 15),
            ("sigquit", 3),
            ("SIGRTMIN+3", 37),
            ("RTMAX-2", 62),
            ("SIGRTMIN", 34),
            ("SIGCLD", 17),
            ("SIGPOLL", 29),
        ] {
            assert_eq!(
                StopSignal::parse(text).map(StopSignal::number),
                Some(number),
                "{text}"
            );
        }
        for bad in [
            "",
            "0",
            "65",
            "-1",
            "SIG",
            "SIGNOPE",
            "SIGRTMIN+31",
            "SIGRTMAX-31",
            "RTMIN-1",
        ] {
            assert_eq!(StopSignal::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_interfaces_signals_survive_both_ways() {
        let mut seen = 0;
        for value in 1..=65 {
            let signal = v1::Signal::try_from(value).unwrap();
            let parsed = StopSignal::from_cri(signal).unwrap_or_else(|| panic!("{signal:?}"));
            assert_eq!(
                StopSignal::from_cri(parsed.to_cri()),
                Some(parsed),
                "{signal:?}"
            );
            seen += i32::from(parsed.to_cri() == signal);
        }
        // SIGCLD, SIGIOT and SIGPOLL are second names.
        assert_eq!(seen, 62);
        assert_eq!(StopSignal::from_cri(v1::Signal::RuntimeDefault), None);
    }

    #[test]
    fn the_request_goes_before_the_image() {
        let mut warnings = Vec::new();
        let of = |requested: v1::Signal, image: &str, warnings: &mut Vec<String>| {
            StopSignal::of_container(requested.into(), image, warnings)
                .unwrap()
                .number()
        };
        assert_eq!(of(v1::Signal::Sigusr1, "SIGQUIT", &mut warnings), 10);
        assert_eq!(of(v1::Signal::RuntimeDefault, "SIGQUIT", &mut warnings), 3);
        assert_eq!(of(v1::Signal::RuntimeDefault, "", &mut warnings), 15);
        assert!(warnings.is_empty());
        assert_eq!(of(v1::Signal::RuntimeDefault, "SIGNOPE", &mut warnings), 15);
        assert_eq!(warnings.len(), 1);
        assert!(StopSignal::of_container(99, "", &mut warnings).is_err());
    }
}
