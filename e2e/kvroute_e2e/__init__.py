"""Real engines behind one router, and their own counters held against the router's. See docs/e2e.md."""
