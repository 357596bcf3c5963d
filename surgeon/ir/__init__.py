"""The ONNX model in memory: protobufs, the indexed graph, types, constants, files."""
