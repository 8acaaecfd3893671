//! Network devices that are moved into a container (`linux.netDevices`).

mod devices;
mod message;
mod name;
mod socket;

pub(crate) use devices::Devices;
pub(crate) use name::check;
