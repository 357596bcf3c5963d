"""The same unit on Ray and on Dask: their own schedulers, on clusters of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

import surgeon

ROOT = Path(__file__).resolve().parent.parent
NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = EPS> (x, s, b)
}"""


@pytest.mark.cluster
@pytest.mark.parametrize(("script", "package"), [("with_ray.py", "ray"), ("with_dask.py", "distributed")])
def test_models_on_a_cluster(script: str, package: str, tmp_path: Path) -> None:
    """One model cannot be read, which stops no other; a second run does that one alone."""
    pytest.importorskip(package, reason="needs surgeon's extra 'cluster'")
    source, out = tmp_path / "in", tmp_path / "out"
    (source / "deep").mkdir(parents=True)
    for name in ("a.onnx", "deep/b.onnx", "c.onnx"):
        onnx.save(onnx.parser.parse_model(NORM.replace("EPS", f"{len(name)}e-3")), source / name)
    (source / "broken.onnx").write_bytes(b"no model")
    command = [sys.executable, str(ROOT / "samples" / "cluster" / script), str(source), str(out), "8.4"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "samples" / "cluster")])}

    def run() -> dict[str, dict[str, object]]:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)
        assert done.returncode == 1, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {str(Path(f["model"]).relative_to(source)): f for f in found}

    first = run()
    assert sorted(first) == ["a.onnx", "broken.onnx", "c.onnx", "deep/b.onnx"]
    assert "is not an ONNX model" in str(first["broken.onnx"]["error"]) and first["a.onnx"]["rewrites"] == 1
    for name in ("a.onnx", "deep/b.onnx", "c.onnx"):
        alone = surgeon.rewrite(source / name, target="8.4").model.SerializeToString(deterministic=True)
        assert (out / name).read_bytes() == alone
    assert list(run()) == ["broken.onnx"]
