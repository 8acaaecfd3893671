//! The forms in which the store keeps layers on disk.

/// What layers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreForm {
    /// A directory with the layer's files.
    Files,
    /// One file of the file system EROFS.
    Erofs,
}
