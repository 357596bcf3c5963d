"""Numbers as inputs hold them: photographs, printed pages, lines of text, and speech.

What a model is sensitive to shows on inputs that it reacts to: a text detector finds nothing in noise. Each function
takes a generator of random numbers, a shape, and the number of the sample, by which its kind changes: every second
sample measures the error of a conversion, so two that follow one another are of one kind.
"""

import numpy as np

from surgeon.proof.usual_sizes import CHANNELS, LARGE

# Letters and digits of 7 rows of 5 dots, a row in a digit to the base of 32.
GLYPHS = (
    "4AHHVHHVGGUGGVHHHVHHHE44444EGGGGGGVHHPLJHHEHHHHHEFGGE11UV444444UHHUKIHUHHHHHUEHGGGHEHHHHHHEHRLLHHHUHHUGGG"
    "EHJLPHE4C4444EEH1248V26AIV22V124888"
)
STRIP = 64  # an image no higher than this, and wider than high, is a line of text
OBJECTS = 12
RATE = 16000  # samples of a waveform a second
HARMONICS = 24
SYLLABLE = 0.13  # seconds


def kind_of(turn: int) -> int:
    """The kind of the sample of a number: 0, 1 or 2."""
    return turn // 2 % 3


def image(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    """Numbers from 0 to 1: a photograph, a printed page, a dark scene with letters; a line of text where it is low."""
    last = shape[-1] in CHANNELS and shape[-2] >= LARGE
    height, width = (shape[-3], shape[-2]) if last else (shape[-2], shape[-1])
    rest = (*shape[:-3], shape[-1]) if last else shape[:-2]
    found = np.stack([_one_image(rng, rest[-1], height, width, kind_of(turn)) for _ in range(int(np.prod(rest[:-1])))])
    found = found.reshape(*rest, height, width)
    return np.moveaxis(found, -3, -1) if last else found


def _one_image(rng: np.random.Generator, channels: int, height: int, width: int, kind: int) -> np.ndarray:
    """An image, channels first."""
    paper = kind == 1 or (height <= STRIP and width > height and kind == 0)
    light = _natural(rng, height, width)
    if paper:
        found = np.repeat(0.85 + 0.12 * light[None], channels, 0)
    else:
        found = 0.75 * light + 0.25 * np.stack([_natural(rng, height, width) for _ in range(channels)])
        _draw_objects(rng, found)
    if kind == 2:
        found = 0.5 * found**2
    if height <= STRIP and width > height:
        _write(rng, found, height // 6, max(1, height // 10), _ink(rng, found))
    elif kind:
        for size in (1, 2, max(2, height // 90), max(3, height // 40)):
            for _ in range(3):
                _write(rng, found, int(rng.integers(0, max(1, height - 7 * size))), size, _ink(rng, found))
    return np.asarray(np.clip(found + 0.01 * rng.standard_normal(found.shape), 0, 1))


def _natural(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Numbers from 0 to 1 whose amplitudes fall with the frequency, as those of photographs do."""
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    falling = 1 / (np.hypot(rows, columns) + 0.5 / max(height, width)) ** 1.6
    found = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((height, width))) * falling, (height, width))
    low, high = np.quantile(found, (0.02, 0.98))
    return np.asarray(np.clip((found - low) / ((high - low) or 1.0), 0, 1))


def _draw_objects(rng: np.random.Generator, canvas: np.ndarray) -> None:
    """Ellipses and boxes of one colour, lit from one side."""
    channels, height, width = canvas.shape
    for number in range(OBJECTS):
        tall, wide = (int(rng.integers(2, max(3, size // 3))) for size in (height, width))
        top, left = int(rng.integers(0, max(1, height - tall))), int(rng.integers(0, max(1, width - wide)))
        y, x = np.mgrid[-1 : 1 : tall * 1j, -1 : 1 : wide * 1j]
        inside = (x * x + y * y <= 1) if number % 2 else np.ones_like(x, bool)
        part = canvas[:, top : top + tall, left : left + wide]
        colour = rng.random((channels, 1, 1)) * (0.8 + 0.2 * x)
        part[:] = np.where(inside, 0.15 * part + 0.85 * colour, part)


def _ink(rng: np.random.Generator, canvas: np.ndarray) -> np.ndarray:
    """A colour that is seen on the canvas."""
    return np.asarray(0.15 * rng.random((len(canvas), 1, 1)) + (0.7 if canvas.mean() < 0.45 else 0.0))


def _write(rng: np.random.Generator, canvas: np.ndarray, top: int, size: int, ink: np.ndarray) -> None:
    """Words from a random place of a line on; `size` is that of a dot of the letters."""
    width = canvas.shape[2]
    left = int(rng.integers(0, max(1, width // 4)))
    columns: list[np.ndarray] = []
    while len(columns) * size < width - left:
        first = 7 * int(rng.integers(0, len(GLYPHS) // 7))
        glyph = GLYPHS[first : first + 7]
        dots = np.array([[int(digit, 32) >> k & 1 for k in range(4, -1, -1)] for digit in glyph])
        columns += [*dots.T, *np.zeros((4 if rng.random() < 0.2 else 1, 7), int)]
    line = np.kron(np.array(columns).T, np.ones((size, size)))
    line = (line + np.roll(line, 1, 1) + np.roll(line, 1, 0)) / 3 if size > 2 else line  # soft edges
    part = canvas[:, top : top + 7 * size, left:]
    alpha = line[: part.shape[1], : part.shape[2]]
    part[:] = part * (1 - alpha) + ink * alpha


def waveform(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    """Numbers from -1 to 1: speech, quiet speech, and speech that ends in silence."""
    length, kind = max(shape), kind_of(turn)
    found = (0.6, 0.03, 0.5)[kind] * _speech(rng, length) + 0.002 * rng.standard_normal(length)
    if kind == 2:
        found[length // 2 :] = 0
    return found.reshape([length if d == length else 1 for d in shape]) + np.zeros(shape)


def _speech(rng: np.random.Generator, length: int) -> np.ndarray:
    """Syllables of a voice that rises and falls, with breaths and pauses between; the largest number is 1."""
    count = max(4, int(length / RATE / SYLLABLE) + 2)
    at, ends = np.linspace(0, count - 1, length), np.arange(count)
    pitch = np.interp(at, ends, rng.uniform(90, 240, count))
    phase = np.cumsum(2 * np.pi * pitch / RATE)
    voiced = np.interp(at, ends, rng.choice([1.0, 0.7, 0.0], count, p=[0.5, 0.25, 0.25]))
    breath = np.interp(at, ends, rng.choice([0.3, 0.02, 0.0], count, p=[0.2, 0.4, 0.4]))
    bands = [np.interp(at, ends, rng.uniform(*ends_of, count)) for ends_of in ((300, 800), (900, 2300), (2400, 3200))]
    found = np.zeros(length)
    for k in range(1, HARMONICS + 1):
        strength = sum(1 / (1 + ((k * pitch - band) / 120) ** 2) for band in bands) + 0.3 / k
        found += strength * np.sin(k * phase) / k**0.5
    found = voiced * found / np.abs(found).max() + breath * np.diff(rng.standard_normal(length + 1))
    return np.asarray(found / (np.abs(found).max() or 1.0))


def features(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    """Standard normal numbers; numbers alike among neighbours, as logarithms of spectra are; small ones."""
    found = rng.standard_normal(shape)
    if kind_of(turn) == 1 and len(shape) > 1 and min(shape[-2:]) > 1:
        found = 5 * _natural(rng, shape[-2], shape[-1]) - 3 + 0.3 * found
    return found * (0.1 if kind_of(turn) == 2 else 1.0)
