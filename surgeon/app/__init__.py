"""The command line, its tables and reports."""
