"""Examples of the conditions about DLA."""

from __future__ import annotations

from condition_examples.example import Example, both
from surgeon.targets.conditions.dla import gpu_fallback

EXAMPLES: dict[str, list[Example]] = {
    gpu_fallback.name: [
        Example("Softplus", "dla 6.0 to 10.16", "DLA has no Softplus: it would run on the GPU", 1, *both("(float[2] x) => (float[2] y) { y = Softplus (x) }", "Softplus", "Tanh", "LeakyRelu")),
    ],
}  # fmt: skip
