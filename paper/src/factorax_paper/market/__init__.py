"""A market: one dealer who quotes bid and ask prices on n assets, and the optimal quotes for comparison."""

from factorax._lazy import lazy_imports

with lazy_imports(__name__):
    from .closed_form import ClosedForm as ClosedForm
    from .closed_form import closed_form_curvature as closed_form_curvature
    from .closed_form import closed_form_quotes as closed_form_quotes
    from .continuous_time import continuous_quotes as continuous_quotes
    from .continuous_time import continuous_values as continuous_values
    from .dynamic_programming import Optimum as Optimum
    from .dynamic_programming import optimum as optimum
    from .dynamic_programming import value_of_quotes as value_of_quotes
    from .episodes import play as play
    from .market_problem import Market as Market
    from .market_problem import market as market
    from .model import MarketModel as MarketModel
