"""Training runs on disk and on screen: run folders, comparisons and reports."""

from .._lazy import lazy_imports

# Loaded lazily: statistics and plots do not need JAX, and the command line starts faster.
with lazy_imports(__name__):
    from .compare import Group as Group
    from .compare import compare_groups as compare_groups
    from .compare import draw_curves as draw_curves
    from .compare import group_runs as group_runs
    from .folder import read_config as read_config
    from .folder import read_metrics as read_metrics
    from .gain import split_gains as split_gains
    from .seeds import train_networks as train_networks
    from .seeds import train_seeds as train_seeds
    from .statistics import Interval as Interval
    from .statistics import iqm as iqm
    from .statistics import iqm_difference as iqm_difference
    from .statistics import normal_mean as normal_mean
    from .statistics import probability_of_improvement as probability_of_improvement
    from .training import train as train
