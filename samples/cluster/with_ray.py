"""Many models on a Ray cluster: `python with_ray.py MODELS/ OUT/ 8.4`.

Without an address Ray starts a cluster on this machine. `RAY_ADDRESS=auto` takes the one that is running.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import ray
from unit import rewrite_one, told, units

# A worker goes after its model, and its memory with it; a model whose worker was killed is tried once more.
remote = ray.remote(num_cpus=1, max_calls=1, max_retries=1)(rewrite_one)


def results(models: str, out: str, target: str) -> Iterator[dict[str, Any]]:
    """How each model ended, as it comes."""
    left = [remote.remote(source, place, target) for source, place in units(models, out)]
    while left:
        done, left = ray.wait(left)
        yield from ray.get(done)


if __name__ == "__main__":
    ray.init(include_dashboard=False, logging_level="error")
    sys.exit(1 if told(results(*sys.argv[1:4])) else 0)
