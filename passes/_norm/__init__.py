"""What the normalisation passes share.

spelling    the ways to write (x - mean) / sqrt(variance + epsilon), as patterns
window      what a match of them says: the axes, the epsilon, the factors and the shifts
axes        over which axes of x the means are taken
epsilon     the epsilon, and what the variance is multiplied with
kind        which normalisation it is, where several passes could take it
factors     scales and shifts as vectors along the normalised axes
precision   the type to compute in
writing     the same normalisation in other nodes
"""
