"""From trials to a score: whose failure each one is, which one counts, the figures."""
