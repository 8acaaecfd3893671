//! The forms in which the store keeps layers on disk.

/// The form of layers on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreForm {
    /// A directory with the layer's files.
    Files,
    /// One EROFS image file.
    Erofs,
}
