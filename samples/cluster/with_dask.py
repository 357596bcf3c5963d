"""Many models on a Dask cluster: `python with_dask.py MODELS/ OUT/ 8.4 [SCHEDULER]`.

Without a scheduler's address Dask starts a cluster on this machine, two processes of one thread each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dask.distributed import Client, LocalCluster, as_completed
from unit import rewrite_one, told, units


def results(client: Client, models: str, out: str, target: str) -> Iterator[dict[str, Any]]:
    """How each model ended, as it comes."""
    client.upload_file(str(Path(__file__).with_name("unit.py")))
    futures = [client.submit(rewrite_one, source, place, target, retries=1) for source, place in units(models, out)]
    for future in as_completed(futures):
        yield future.result()


if __name__ == "__main__":
    models, out, target, *address = sys.argv[1:]
    cluster = address[0] if address else LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(cluster) as client:
        failed = told(results(client, models, out, target))
    sys.exit(1 if failed else 0)
