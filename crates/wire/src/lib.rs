//! The words that the daemon and a keeper exchange.
