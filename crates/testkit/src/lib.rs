//! What tests share: a registry, images made on the spot, a daemon under test.
