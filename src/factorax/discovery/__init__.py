"""Discovery of influence networks in simulators and data, with evidence for each edge."""

from .._lazy import lazy_imports

with lazy_imports(__name__):
    from .._false_discovery import adjusted as adjusted
    from .batch import Batch as Batch
    from .batch import collect as collect
    from .dependence import dependence_test as dependence_test
    from .discover import discover as discover
    from .gated import gated_critic as gated_critic
    from .interventional import intervene as intervene
    from .interventional import measure_lags as measure_lags
    from .result import Discovery as Discovery
    from .score import detectable as detectable
    from .score import score_test as score_test
    from .worthwhile import worthwhile_network as worthwhile_network
