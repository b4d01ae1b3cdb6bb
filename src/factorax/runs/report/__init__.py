"""A run, several seeds, several methods, an experiment or a discovery as one page to read in a browser."""

from .collection import collect as collect
from .live import LiveReport as LiveReport
from .writing import report as report
