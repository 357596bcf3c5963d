"""The version of surgeon, which reports and the command line name."""

__version__ = "0.1.0"
