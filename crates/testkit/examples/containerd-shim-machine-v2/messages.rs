//! Messages of the task service, as much of them as is looked at.

use orlop_testkit::Any;
use orlop_ttrpc::{Status, code};
use prost::Message;

/// `CreateTaskResponse`, `StartResponse`, a process of `PidsResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Numbered {
    #[prost(uint32, tag = "1")]
    pub(crate) number: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Connected {
    #[prost(uint32, tag = "1")]
    pub(crate) shim: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) task: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Processes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) processes: Vec<Numbered>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mount {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(string, tag = "2")]
    pub(crate) source: String,
    #[prost(string, tag = "3")]
    pub(crate) target: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) options: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Create {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) bundle: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) rootfs: Vec<Mount>,
    #[prost(bool, tag = "4")]
    pub(crate) terminal: bool,
    #[prost(string, tag = "5")]
    pub(crate) stdin: String,
    #[prost(string, tag = "6")]
    pub(crate) stdout: String,
    #[prost(string, tag = "7")]
    pub(crate) stderr: String,
    #[prost(message, optional, tag = "10")]
    pub(crate) options: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Options {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(string, tag = "2")]
    pub(crate) path: String,
    #[prost(string, tag = "3")]
    pub(crate) body: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Of {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) exec: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Update {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) resources: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct State {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) bundle: String,
    #[prost(uint32, tag = "3")]
    pub(crate) pid: u32,
    #[prost(int32, tag = "4")]
    pub(crate) status: i32,
    #[prost(string, tag = "5")]
    pub(crate) stdin: String,
    #[prost(string, tag = "6")]
    pub(crate) stdout: String,
    #[prost(string, tag = "7")]
    pub(crate) stderr: String,
    #[prost(bool, tag = "8")]
    pub(crate) terminal: bool,
    #[prost(uint32, tag = "9")]
    pub(crate) exit_status: u32,
    #[prost(bytes = "vec", optional, tag = "10")]
    pub(crate) exited_at: Option<Vec<u8>>,
    #[prost(string, tag = "11")]
    pub(crate) exec: String,
}

pub(crate) type Answer<T> = Result<T, Status>;

pub(crate) fn refused(message: impl Into<String>) -> Status {
    Status::new(code::UNKNOWN, message)
}
