"""The generated pages of the documents' site, one module a kind of page. docs/site.py writes them."""
