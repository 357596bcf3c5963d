"""What DLA does not run, and leaves to the GPU."""

from __future__ import annotations

from surgeon.targets.releases import DLA
from surgeon.targets.rows import other_than, refuses
from surgeon.targets.tables import DLA_NATIVE, IMPORTED

# fmt: off
pad_mode = refuses("Pad", DLA, attr={"mode": other_than("constant")}, reason="DLA has no {value} padding", section="10",
                   source="dla-layer-restrictions: constant 0 alone, from 10.4; kREFLECT and kCLAMP never")
prelu_slope = refuses("PRelu", DLA, input=1, weights=False, reason="on DLA the slope must be an initializer",
                      section="10", source="dla-layer-restrictions: the slope is a build-time constant")
gpu_fallback = refuses(" ".join(sorted(IMPORTED - DLA_NATIVE)), DLA,
                       reason="DLA has no {op}: it would run on the GPU", section="10",
                       source="NVIDIA/Deep-Learning-Accelerator-SW operators/README.md@ea61780, dla-layer-restrictions")
# fmt: on
