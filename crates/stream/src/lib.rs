//! exec, attach and port-forward over SPDY/3.1 and WebSocket, server and client.
