"""HTML reports of runs, groups of seeds, methods and discoveries."""

from ..._lazy import lazy_imports

with lazy_imports(__name__):
    from .contents import collect as collect
    from .page import report as report
