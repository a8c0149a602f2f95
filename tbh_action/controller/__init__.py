"""A leg of a run, from the question to the answer: what starts, watches, stops and records."""
