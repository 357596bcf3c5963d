"""The report as an HTML page: `page` writes it, `drawing` draws its windows."""
