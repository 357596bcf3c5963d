"""The program `surgeon`, and `python -m surgeon`."""

from typing import NoReturn

from surgeon.app import start


def program() -> NoReturn:
    start.begin()
    from surgeon.app.cli import program

    start.done()
    program()


if __name__ == "__main__":
    program()
