//! Calls that multiplex others on some architectures, selected by the first argument (`linux/net.h`, `linux/ipc.h`).

/// A kind of multiplexed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Multiplexed {
    Socketcall(u8),
    Ipc(u8),
}

impl Multiplexed {
    /// Returns the name of the multiplexing call, and its first argument for this one.
    pub(crate) fn stands_for(self) -> (&'static str, u64) {
        match self {
            Self::Socketcall(which) => ("socketcall", which.into()),
            Self::Ipc(which) => ("ipc", which.into()),
        }
    }
}

/// Returns the kind of a call with this name, if it is multiplexed.
pub(super) const fn of(name: &str) -> Option<Multiplexed> {
    match (which(name, &SOCKETCALL), which(name, &IPC)) {
        (Some(which), _) => Some(Multiplexed::Socketcall(which)),
        (_, Some(which)) => Some(Multiplexed::Ipc(which)),
        _ => None,
    }
}

const fn which(name: &str, list: &[(&str, u8)]) -> Option<u8> {
    let mut at = 0;
    while at < list.len() {
        if is_same(name.as_bytes(), list[at].0.as_bytes()) {
            return Some(list[at].1);
        }
        at += 1;
    }
    None
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

const SOCKETCALL: [(&str, u8); 20] = [
    ("socket", 1),
    ("bind", 2),
    ("connect", 3),
    ("listen", 4),
    ("accept", 5),
    ("getsockname", 6),
    ("getpeername", 7),
    ("socketpair", 8),
    ("send", 9),
    ("recv", 10),
    ("sendto", 11),
    ("recvfrom", 12),
    ("shutdown", 13),
    ("setsockopt", 14),
    ("getsockopt", 15),
    ("sendmsg", 16),
    ("recvmsg", 17),
    ("accept4", 18),
    ("recvmmsg", 19),
    ("sendmmsg", 20),
];

const IPC: [(&str, u8); 12] = [
    ("semop", 1),
    ("semget", 2),
    ("semctl", 3),
    ("semtimedop", 4),
    ("msgsnd", 11),
    ("msgrcv", 12),
    ("msgget", 13),
    ("msgctl", 14),
    ("shmat", 21),
    ("shmdt", 22),
    ("shmget", 23),
    ("shmctl", 24),
];
