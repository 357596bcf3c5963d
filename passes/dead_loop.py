"""Remove a Loop, an If or a Scan whose results are not read.

Why       A scripted PyTorch module checks shapes in a Loop (torch.nn.functional._verify_spatial_size) whose results
          are not read. onnxsim and ONNX Runtime keep it, TensorRT builds it, TensorRT-RTX 1.7.1 rejects some.
Rewrites  Loop, If and Scan none of whose outputs is read   ->   nothing
Exact     Nothing that is read changes.
"""

from surgeon import Stage, op, require, rule


@rule(op.Loop(...) | op.If(...) | op.Scan(...), stage=Stage.CLEAN)
def dead(b):
    require(not any(o is not None and o.is_read for o in b.root.outputs))
    return ()
