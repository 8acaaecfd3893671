//! From an image reference to a mountable root filesystem.
