"""Traffic lights of any SUMO network, such as those of real cities."""

from factorax._lazy import lazy_imports

with lazy_imports(__name__):
    from .controllers import greedy as greedy
    from .controllers import max_pressure as max_pressure
    from .controllers import play as play
    from .env import CityEnv as CityEnv
    from .env import Score as Score
    from .influence import influence as influence
    from .resco import resco as resco
