//! Bad days of what layers come from and of who serves them.
