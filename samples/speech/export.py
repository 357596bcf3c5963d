"""A small speech recogniser, from the waveform to letters: `python -m samples.speech.export` makes the model."""

import torch
import torch.nn.functional as F
from torch import nn

from samples.torch_export import Sample, as_if_trained, export

FRAME, HOP, MELS, WIDTH, LETTERS = 64, 32, 16, 24, 29


class TinyRecogniser(nn.Module):
    """[N, samples] waveform to [N, frames, 29] log probabilities: a spectrogram, two convolutions, a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME))
        self.register_buffer("mels", torch.rand(FRAME // 2 + 1, MELS))
        self.conv1 = nn.Conv1d(MELS, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, WIDTH), nn.GroupNorm(WIDTH, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(2 * WIDTH, LETTERS)

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(waveform, FRAME, HOP, window=self.window, center=False, return_complex=False)
        power = spectrum.pow(2).sum(-1).transpose(1, 2)
        x = torch.log(power @ self.mels + 1e-5).transpose(1, 2)
        x = F.gelu(self.norm1(self.conv1(x)))
        x = F.gelu(self.norm2(self.conv2(x)))
        x, _ = self.gru(x.transpose(1, 2))
        return F.log_softmax(self.letters(x), dim=-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    export(
        Sample(
            name="speech",
            network=as_if_trained(TinyRecogniser()),
            traced=(torch.randn(2, 1024),),
            outputs=["letters"],
            dynamic={"waveform": {0: "batch", 1: "samples"}, "letters": {0: "batch", 1: "frames"}},
            checked=[(torch.randn(2, 2048),), (torch.randn(2, 1024),)],
        ),
        torchscript=(17,),
        dynamo=(),
    )
