"""The result of a conversion to half precision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto

from surgeon.ir.files import Content, is_large, write
from surgeon.ir.weight_file import WeightFile
from surgeon.precision.comparison import OutputError
from surgeon.precision.standard import LIMIT
from surgeon.report import Conversion


@dataclass(slots=True)
class PrecisionResult(Conversion):
    """The result of a conversion.

    model    the converted model: it holds its weights, or where it is large the paths of files that do
    judge    the errors of a model that is written otherwise, on the same inputs; None where none were measured
    base     the folder of the external weights of a large model
    weights  their file, which lasts as long as this
    """

    model: ModelProto
    tolerance: float = field(default=LIMIT, kw_only=True)
    errors: list[OutputError] = field(default_factory=list, kw_only=True)
    judge: Callable[[ModelProto], list[OutputError]] | None = field(default=None, repr=False)
    base: Path | None = None
    weights: WeightFile | None = None

    def save(self, path: str | Path, also: Mapping[Path, Content] | None = None) -> list[Path]:
        """Write the model, and return its files; `also`: see `files.write`.

        One of more than 1 GiB gets its weights in a file beside it.
        """
        return write(self.model, Path(path), self.base, also, self.is_apart)

    @property
    def is_apart(self) -> bool:
        """Whether the weights are written to a file of their own."""
        return self.weights is not None or is_large(self.model)
