"""The neural networks of policies and critics, one kind per file, and their common parts.

- `mlp`: fully connected layers, on which all others are built;
- `arrangements`: one network for all components, one that is shared, or one per component;
- `convolution`: encoding of images by convolutions;
- `attention`: attention of components to their neighbours;
- `recurrent`: GRU and LSTM;
- `custom`: a user's own module.
"""
