"""Text as it may be printed: names come from files of others, and a terminal or a CI system obeys what they hold."""

import re
import unicodedata

# What a CI system that reads a log takes for a command: GitHub's at the start of a line, and the others anywhere in it.
COMMAND_START = re.compile(r"^(\s*):(?=:)")
COMMAND_INSIDE = re.compile(r"#(?=#(?:\[|vso\[|teamcity\[))")


def visible(text: str) -> str:
    """A line in which nothing but its letters is left; what `visible` returned before stays the same.

    Control characters, line breaks and those that turn the direction of writing are spelled as Python does, such as
    `\\x1b`. So is the first character of what a CI system takes for a command. A tab stays.
    """
    if not text.isprintable():
        text = "".join(c if _is_shown(c) else repr(c)[1:-1] for c in text)
    return COMMAND_INSIDE.sub(r"\\x23", COMMAND_START.sub(r"\1\\x3a", text))


def visible_json(text: str) -> str:
    """JSON of the same value without the characters that `visible` spells. Line breaks between its parts stay."""
    if not all(map(str.isprintable, text.split("\n"))):
        text = "".join(c if c == "\n" or _is_shown(c) else _json_escape(c) for c in text)
    return COMMAND_INSIDE.sub(r"\\u0023", text)


def _is_shown(character: str) -> bool:
    """Whether a character shows itself: it prints, or is a space of some width."""
    return character.isprintable() or character == "\t" or unicodedata.category(character) == "Zs"


def _json_escape(character: str) -> str:
    """A character in JSON's spelling: one or two UTF-16 code units."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True))
