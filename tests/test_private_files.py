"""Files that surgeon believes: which it reads and writes, and how it makes them. Real files, with real modes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from surgeon import private_files
from surgeon.private_files import NotPrivateError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have no owner and no mode here")
NOBODY = 65534
needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives a file away")


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids="umask {:03o}".format)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A private file, in a folder that surgeon made: above that is one that is nobody else's, either."""
    path = tmp_path / "home" / "cache" / "file"
    private_files.append(path, b"mine\n")
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("umask")
def test_what_is_made_is_this_users_alone(tmp_path: Path) -> None:
    file = tmp_path / "home" / "cache" / "file"
    for write, held in (
        (private_files.append, b"a\n"),
        (private_files.append, b"a\na\n"),
        (private_files.replace, b"a\n"),
    ):
        write(file, b"a\n")
        assert (mode(file), mode(file.parent), mode(file.parent.parent)) == (0o600, 0o700, 0o700)
        assert private_files.read(file) == held
    assert os.listdir(file.parent) == ["file"]


def test_what_others_can_read_is_believed(file: Path) -> None:
    """As older versions made it. The next line that is written closes the file; the folder keeps its mode."""
    file.chmod(0o644)
    file.parent.chmod(0o755)
    assert private_files.read(file) == b"mine\n"
    private_files.append(file, b"more\n")
    assert (mode(file), mode(file.parent)) == (0o600, 0o755)


def linked(path: Path) -> None:
    """A link in place of the path, to what was there."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def linked_to_one_that_others_write(path: Path) -> None:
    path.chmod(0o777)
    linked(path)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def given_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def a_link_of_somebody_else(path: Path) -> None:
    linked(path)
    os.lchown(path, NOBODY, NOBODY)


SPOILED: list[tuple[str, Callable[[Path], None], str]] = [
    ("file", lambda path: path.chmod(0o660), "other users can write '{}' (mode 0660)"),
    ("file", lambda path: path.chmod(0o602), "other users can write '{}' (mode 0602)"),
    ("file", linked, "'{}' is a link"),
    ("file", linked_to_one_that_others_write, "'{}' is a link"),
    ("file", a_pipe, "'{}' is not a regular file"),
    ("file", given_away, "another user (nobody) owns '{}'"),
    ("folder", lambda path: path.chmod(0o770), "other users can write '{}' (mode 0770)"),
    ("folder", lambda path: path.chmod(0o1777), "other users can write '{}' (mode 1777)"),
    ("folder", linked_to_one_that_others_write, "other users can write '{}/elsewhere' (mode 0777)"),
    ("folder", given_away, "another user (nobody) owns '{}'"),
    ("folder", a_link_of_somebody_else, "another user (nobody) owns '{}'"),
    ("home", lambda path: path.chmod(0o757), "other users can write '{}' (mode 0757)"),
    ("home", given_away, "another user (nobody) owns '{}'"),
]


@pytest.mark.parametrize(
    ("what", "spoil", "why"),
    [
        pytest.param(*row, marks=needs_root if "nobody" in row[2] else [], id=f"{row[0]}-{row[2][:20]}-{number}")
        for number, row in enumerate(SPOILED)
    ],
)
def test_what_others_may_have_written_is_not_used(
    what: str, spoil: Callable[[Path], None], why: str, file: Path
) -> None:
    path = {"file": file, "folder": file.parent, "home": file.parent.parent}[what]
    spoil(path)
    named = path.parent if "{}/" in why else path
    for use in (
        lambda: private_files.read(file),
        lambda: private_files.check(file),
        lambda: private_files.append(file, b"more\n"),
    ):
        with pytest.raises(NotPrivateError) as raised:
            use()
        assert str(raised.value) == why.format(named)
    if what == "file":
        private_files.replace(file, b"new\n")
        assert (private_files.read(file), mode(file)) == (b"new\n", 0o600)
    else:
        with pytest.raises(NotPrivateError):
            private_files.replace(file, b"new\n")


def test_a_link_is_left_as_it_is_and_so_is_its_file(file: Path) -> None:
    linked(file)
    private_files.replace(file, b"new\n")
    assert not file.is_symlink() and file.with_name("elsewhere").read_bytes() == b"mine\n"


def test_a_folder_may_be_a_link_to_a_private_one(file: Path) -> None:
    """As where a home folder has its caches on another disk. A way back up is followed as the system does."""
    linked(file.parent)
    (file.parent.parent / "way").symlink_to("elsewhere/../elsewhere")
    assert private_files.read(file) == private_files.read(file.parent.parent / "way" / "file") == b"mine\n"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        private_files.read(tmp_path / "a" / "file")


def test_a_sticky_folder_above_is_no_danger(file: Path) -> None:
    """Others can write /tmp, and cannot rename there what is this user's."""
    file.parent.parent.chmod(0o1777)
    assert private_files.read(file) == b"mine\n"


@needs_root
def test_a_group_above_that_has_this_user_alone_is_no_danger(file: Path) -> None:
    above = file.parent.parent
    above.chmod(0o775)
    assert private_files.read(file) == b"mine\n"
    os.chown(above, 0, NOBODY)
    with pytest.raises(NotPrivateError, match="mode 0775"):
        private_files.read(file)


def test_what_is_not_there_is_said_as_ever(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        private_files.read(tmp_path / "none" / "file")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        private_files.append(tmp_path / "file" / "file", b"")
    with pytest.raises(NotADirectoryError):
        private_files.append(tmp_path / "file" / "folder" / "file", b"")


def test_a_relative_path_is_one_of_this_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert private_files.read(Path("file")) == private_files.read(Path("../cache/file")) == b"mine\n"
    assert private_files.make_folder(Path("inner")) == file.parent / "inner"
    assert mode(file.parent / "inner") == 0o700
