"""A model of a few nodes, of whose tensors helpers of passes are asked."""

from __future__ import annotations

from helpers import a_pass, model

from surgeon.ir.graph import Value
from surgeon.ir.model import Model
from surgeon.rules.builder import Builder
from surgeon.rules.driver import Driver, Editor
from surgeon.rules.rule import Stage
from surgeon.targets.target import Target

OTHERS = "int64[2] pair, int64[1] one, int64[K] many"


class Asked:
    """Tensors by name, and the builder of a rule. `inputs` and `body` are those of a model as text."""

    def __init__(self, inputs: str, body: str, opset: int = 17) -> None:
        proto = model(f"({inputs}, {OTHERS}) => (int64[2] y) {{ {body} y = Identity (pair) }}", opset)
        driver = Driver(Model(proto), [a_pass("asked")], Target.parse("10.9"))
        self.graph = driver.model.scopes[0]
        self.b: Builder = Editor(driver, "asked", Stage.CLEAN).builder(self.graph.live()[0])

    def __getitem__(self, name: str) -> Value:
        found = self.graph.find(name)
        assert found is not None
        return found
