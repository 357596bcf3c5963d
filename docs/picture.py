"""Make docs/report.png, the image of the HTML report in the README, with a headless Chromium.

python docs/picture.py [CHROMIUM]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
MODEL = DOCS.parent / "samples/ssd_l2norm/ssd_l2norm_ts_op13.onnx"
SIZE = "1000,900"


def main(chromium: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(MODEL, Path(folder) / "head.onnx")
        words = ["rewrite", "head.onnx", "out.onnx", "--target", "8.4", "--report", "report.html"]
        subprocess.run([sys.executable, "-m", "surgeon", *words], check=True, cwd=folder)
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
        page = (Path(folder) / "report.html").as_uri()
        subprocess.run([chromium, *options, f"--screenshot={DOCS / 'report.png'}", page], check=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "chromium")
