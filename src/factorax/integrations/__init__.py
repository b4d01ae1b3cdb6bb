"""Other people's problems and trainers."""

from . import rddl as rddl
