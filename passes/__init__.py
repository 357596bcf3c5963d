"""surgeon's passes: one file each. See `surgeon explain PASS`."""
