"""The neural networks of policies and critics, one kind in each file, and what they have in common.

- `mlp`: layers, which all others are made of;
- `arrangements`: one network for all components, one that they share, or one for each;
- `convolution`: what images are turned into before that;
- `film`: a shared network whose layers each component scales and shifts;
- `attention`: components that look at their neighbours;
- `recurrent`: GRU and LSTM;
- `custom`: a module of the user's own.
"""
