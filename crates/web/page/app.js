new EventSource("/api/live");
