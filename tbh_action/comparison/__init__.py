"""Better or worse than before: statistics, comparison, gate, history."""
