"""How a rewrite is written, found and run: patterns, the matcher, the builder, the driver."""
