"""Each case with one thing changed: its pass makes of that what tests/near/ has.

A guard that goes, or a bound that is moved, changes an answer that no case asks for. Was a change meant? Then
`python tests/near_misses.py --show CASE CHANGE` prints both models, and `python tests/near_misses.py PASS` writes the
record anew: each rewrite in it is compared in ONNX Runtime first.
"""

from __future__ import annotations

import casefile
import near_misses
import pytest

FOLDERS = sorted({p.parent.name for p in casefile.paths()})


@pytest.mark.parametrize("folder", FOLDERS)
def test_near_misses_are_answered_as_recorded(folder: str) -> None:
    recorded = near_misses.recorded(folder)
    assert recorded, f"record them: python tests/near_misses.py {folder}"
    for name, answers in recorded.items():
        case = casefile.load(casefile.HERE / folder / f"{name}.onnxtxt")
        found = near_misses.answers(case, set(answers))
        changed = [
            f"{words}\n    was  {said}\n    is   {found.get(words, 'no such near miss')}"
            for words, said in answers.items()
            if found.get(words) != said
        ]
        assert not changed, f"{folder}/{name}\n" + "\n".join(changed)


def test_no_record_is_left_of_what_went() -> None:
    assert sorted(p.stem for p in near_misses.HERE.glob("*.txt")) == FOLDERS
