"""Whether two models are equal: windows cut out, inputs drawn, results judged. `prove` lists the modules."""
