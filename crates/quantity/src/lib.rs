//! Amounts as Kubernetes writes them: `500m`, `1.5Gi`, `2e3`.

mod quantity;

pub use quantity::{Quantity, QuantityError};
