"""What the normalisation passes share.

spelling    the ways to write (x - mean) / sqrt(variance + epsilon), as patterns
window      what a match of them says: the axes, the epsilon, the factors and the shifts
kind        which normalisation it is, where several passes could take it
factors     scales and shifts as vectors along the normalised axes
writing     the same normalisation in other nodes, and the type to compute in
"""
