//! Common parts of commands that do the same to different kinds of objects.

pub(crate) mod here;
pub(crate) mod inspection;
pub(crate) mod removal;
pub(crate) mod side_by_side;
pub(crate) mod usage;
