"""One run from a model to a proved model."""
