//! The Container Runtime Interface: messages, server glue, typed client.
