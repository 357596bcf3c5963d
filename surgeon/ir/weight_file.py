"""The weights of large models on disk: mapped into memory to be read, and written to a file that surgeon makes."""

import math
import tempfile
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.files import LARGE, LEAST_APART, SMALL, external_place, refer
from surgeon.ir.validity import data_size


class WeightFile:
    """A file of weights in a folder of its own for temporary files. It is deleted with this object."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="surgeon-", ignore_cleanup_errors=True)
        self._path = Path(self._folder.name, "weights").resolve()

    def move(self, model: ModelProto) -> None:
        """Move the large weights of a model's graph to the file, but for those that a caller may replace.

        Raises ModelError where there is no room.
        """
        inputs = {i.name for i in model.graph.input}
        for tensor in model.graph.initializer:
            if tensor.name not in inputs:
                self.store(tensor)

    def store(self, tensor: TensorProto) -> None:
        """Move the data of a tensor to the file, unless it is small or external. Raises ModelError."""
        if tensor.data_location == TensorProto.EXTERNAL or (data_size(tensor) or 0) < LEAST_APART:
            return
        data = tensor.raw_data or numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        try:
            with self._path.open("ab") as file:
                offset = file.tell()
                file.write(data)
        except OSError as error:
            raise ModelError(
                f"the weights do not fit into '{self._path.parent}': {(error.strerror or str(error)).lower()}. Let "
                "TMPDIR name a folder with as much room as the model's file."
            ) from None
        refer(tensor, offset, len(data))
        tensor.external_data.add(key="location", value=str(self._path))


def has_large_weights(model: ModelProto) -> bool:
    """Whether the initializers of a model's graph have more than LARGE bytes, wherever they are."""
    return sum(data_size(tensor) or 0 for tensor in model.graph.initializer) > LARGE


def mapped(tensor: TensorProto, folder: Path | None) -> np.ndarray | None:
    """The elements of a large external tensor, mapped into memory; None where they have to be read instead."""
    if tensor.data_location != TensorProto.EXTERNAL or (data_size(tensor) or 0) <= SMALL:
        return None
    dtype, place = helper.tensor_dtype_to_np_dtype(tensor.data_type), external_place(tensor, folder)
    if place.length != math.prod(tensor.dims) * dtype.itemsize:  # two elements of four bits are in one byte
        return None
    try:
        return np.memmap(place.path, dtype, "r", place.offset, tuple(tensor.dims))
    except (OSError, ValueError):  # the reader says what is wrong
        return None
