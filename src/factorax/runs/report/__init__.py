"""HTML reports of runs, groups of seeds, methods and discoveries."""

from .collection import collect as collect
from .writing import report as report
