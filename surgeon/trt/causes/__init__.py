"""What TensorRT, its parser and ONNX Runtime's provider print, what it means, and what helps: one row a cause.

`surgeon why` reads a log with this table, and the documentation can be made from it. A pattern is a regular expression
for a part of a line, without regard to case. Where several causes speak of a log, the one of the most weight answers;
of the same weight, the one of the line that came first; and in one line the row that is first here.

The commands that fix it may have {model} and {target} in it.
"""

from surgeon.trt.causes import builder, consequences, files, nodes, programs, shapes
from surgeon.trt.causes.cause import REWRITE, Cause, Weight

CAUSES: tuple[Cause, ...] = (
    *files.ROWS,
    *nodes.ROWS,
    *shapes.ROWS,
    *builder.ROWS,
    *programs.ROWS,
    *consequences.ROWS,
)

__all__ = ["CAUSES", "REWRITE", "Cause", "Weight"]
