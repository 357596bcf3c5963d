"""The constants of discrete Fourier transforms."""

import numpy as np

LARGEST = 2**24  # elements of a basis


def basis(taken: int, length: int, bins: int, channels: int, inverse: bool) -> np.ndarray:
    """[bins, 2, taken, channels]: what each number of a signal adds to the two parts of each bin.

    taken     how many numbers of the signal there are; from there up to `length` they are 0
    channels  1 for a real signal, 2 for a complex one
    """
    turns = np.outer(np.arange(bins), np.arange(taken)) % length
    angle = 2 * np.pi * turns / length * (1 if inverse else -1)
    cosine, sine = np.cos(angle), np.sin(angle)
    whole = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)[..., :channels]
    return whole / length if inverse else whole


def real_inverse(given: int, length: int) -> np.ndarray:
    """[length, 1, given, 2]: the real signal of the bins of one side; the other side is their conjugate.

    `given` is length // 2 + 1 at most."""
    whole = basis(given, length, length, 2, inverse=True)[:, :1]
    twice = np.full(given, 2.0)
    alone = [0] if length % 2 else [0, length // 2]
    for place in alone:  # what has no conjugate is real, and counts once
        twice[place : place + 1] = 1
        whole[:, :, place : place + 1, 1] = 0
    return whole * twice[:, None]
