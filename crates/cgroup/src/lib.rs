//! One interface over cgroup v1, v2 and the systemd driver.
