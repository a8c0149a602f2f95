"""A run that others can find, check and repeat."""
