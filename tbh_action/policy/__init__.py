"""The decisions of a run, as pure functions: what starts, repeats, stops, and what it costs."""
