"""TensorRT: engines built and run, models compared, the plugin library."""
