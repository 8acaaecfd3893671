//! The owner of the standard streams of a container.

use crate::options::Options;

/// The container that the streams belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) id: &'a str,
    /// The user and group of the streams, if they are set.
    pub(crate) user: (u32, u32),
}

impl<'a> Owner<'a> {
    pub(crate) fn of(namespace: &'a str, id: &'a str, options: &Options) -> Self {
        let user = (options.io_uid, options.io_gid);
        Self {
            namespace,
            id,
            user,
        }
    }
}
