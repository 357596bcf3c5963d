"""What the pass reflect-pad is made of, beside its rules.

node        what a Pad says
sides       padding an axis from its own values
cuts        which positions of a tensor the inputs of a Concat take
removal     which positions of a tensor a Compress takes out
constants   padding with a number
"""
