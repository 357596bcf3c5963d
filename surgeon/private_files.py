"""Files of this user that surgeon believes when it reads them again: nobody else may have written them.

A file counts as private under three conditions:

- It is a regular file and no link. This user owns it, and nobody else can write it.
- This user owns its folder, and nobody else can write that.
- Nobody but this user and root can put another folder in its place.

What this module makes is 0600 for a file and 0700 for a folder, whatever the umask is. A folder that is there keeps its
mode: others may read it.

On Windows nothing is checked: a file has no owner number and no mode there, and the folders of a user's profile have
access lists that keep other users out.
"""

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from surgeon.errors import SurgeonError

HAS_OWNERS = os.name == "posix"
MOST_LINKS = 40  # on the way to a folder, as Linux has it
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# A file that is opened is not a link, and a pipe in its place does not block. Windows has none of the flags, and needs
# the last one to keep the bytes as they are.
SAFELY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class NotPrivateError(SurgeonError):
    """Another user may have written a file. `path` is the file or the folder at fault, and the message says why."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def read(path: Path) -> bytes:
    """The bytes of a private file. Raises NotPrivateError, and OSError where it cannot be read or is not there."""
    file = _opened(_folder(path.parent) / path.name, os.O_RDONLY)
    with open(file, "rb") as stream:
        return stream.read()


def append(path: Path, data: bytes) -> None:
    """Add bytes to a private file, which is made if it is not there. Raises NotPrivateError and OSError."""
    file = _opened(_folder(path.parent, make=True) / path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    with open(file, "ab") as stream:
        _only_for_this_user(stream.fileno())
        stream.write(data)


def replace(path: Path, data: bytes) -> None:
    """Put a private file in place of whatever file or link is there. Raises NotPrivateError and OSError.

    A process that reads the file meanwhile sees the old bytes or the new ones, never a part.
    """
    folder = _folder(path.parent, make=True)
    file, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}-")
    try:
        with open(file, "wb") as stream:
            _only_for_this_user(stream.fileno())
            stream.write(data)
        os.replace(name, folder / path.name)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def make_folder(path: Path) -> Path:
    """Make a private folder, and those above it that are missing; returns its real path.

    One that is there is checked, and keeps its mode. Raises NotPrivateError and OSError.
    """
    return _folder(path, make=True)


def check(path: Path) -> None:
    """Check a private file that is to be used by its path. Raises NotPrivateError, and OSError if it is not there.

    Nobody else can change the file afterwards, because nobody else can write it or any folder above it.
    """
    os.close(_opened(_folder(path.parent) / path.name, os.O_RDONLY))


# ---- the checks ------------------------------------------------------------------------------------------------------


def _folder(path: Path, make: bool = False) -> Path:
    """The real path of a private folder. What is missing is made if asked for, and else is a FileNotFoundError."""
    if not HAS_OWNERS:
        if make:
            path.mkdir(parents=True, exist_ok=True)
        return path
    real = _reached(path, make)
    found = os.lstat(real)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"'{real}' is not a folder")
    _check(found, real)
    return real


def _reached(path: Path, make: bool) -> Path:
    """The real path of a folder, where nobody but this user and root can put another one.

    It is checked from the root downwards: when a step is looked at, nobody else can change what is above it any more.
    """
    real, links = Path("/"), 0
    todo = [*reversed((Path.cwd() / path).parts[1:])]
    while todo:
        name = todo.pop()
        if name == "..":
            real = real.parent
            continue
        step = real / name
        found = _looked_at(step, make)
        if found.st_uid not in (0, os.geteuid()):
            raise _owned_by_another(found, step)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink(step))
            real = Path("/") if target.is_absolute() else real
            todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            continue
        if todo and _others_move_what_is_in(found):
            raise _written_by_others(found, step)
        real = step
    return real


def _looked_at(step: Path, make: bool) -> os.stat_result:
    try:
        return os.lstat(step)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process of this user was faster, or it is checked like any other
        os.mkdir(step, 0o700)
        os.chmod(step, 0o700)  # a umask takes bits away
    return os.lstat(step)


def _others_move_what_is_in(folder: os.stat_result) -> bool:
    """Whether others can rename what this user has in a folder. In a sticky one, such as /tmp, they cannot."""
    if not stat.S_ISDIR(folder.st_mode) or folder.st_mode & stat.S_ISVTX:
        return False
    by_group = folder.st_mode & stat.S_IWGRP and not _has_this_user_alone(folder.st_gid)
    return bool(by_group or folder.st_mode & stat.S_IWOTH)


def _has_this_user_alone(group: int) -> bool:
    """Whether a group is root's, or the user's own: many systems give each user one, and make folders for it (0775)."""
    import grp  # Windows has neither
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return group == 0
    return group == 0 or (found.gr_name == user and set(found.gr_mem) <= {user})


def _opened(path: Path, flags: int) -> int:
    """The descriptor of a private file. What is checked is what was opened, not what the path names by then."""
    try:
        file = os.open(path, flags | SAFELY, 0o600)
    except OSError:
        if path.is_symlink():
            raise NotPrivateError(path, f"'{path}' is a link") from None
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivateError(path, f"'{path}' is not a regular file")
        if HAS_OWNERS:
            _check(found, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _check(found: os.stat_result, path: Path) -> None:
    if found.st_uid != os.geteuid():
        raise _owned_by_another(found, path)
    if found.st_mode & OTHERS_WRITE:
        raise _written_by_others(found, path)


def _owned_by_another(found: os.stat_result, path: Path) -> NotPrivateError:
    import pwd

    try:
        user = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        user = f"uid {found.st_uid}"
    return NotPrivateError(path, f"another user ({user}) owns '{path}'")


def _written_by_others(found: os.stat_result, path: Path) -> NotPrivateError:
    return NotPrivateError(path, f"other users can write '{path}' (mode {stat.S_IMODE(found.st_mode):04o})")


def _only_for_this_user(file: int) -> None:
    if HAS_OWNERS:
        os.fchmod(file, 0o600)
