//! What commands have in common that do the same to different things.

pub(crate) mod here;
pub(crate) mod inspection;
pub(crate) mod removal;
pub(crate) mod side_by_side;
pub(crate) mod usage;
