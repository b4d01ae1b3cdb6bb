"""Adapters to other packages: Gymnasium, PettingZoo, RDDL, Stable-Baselines3 and RLlib, and the JAX
environments of Gymnax, JaxMARL, Brax, MuJoCo Playground and Jumanji."""

from .._lazy import lazy_imports

# Loaded lazily: the packages behind them are extras.
with lazy_imports(__name__):
    from . import rddl as rddl
    from . import rllib as rllib
    from .batched import BatchedSimulator as BatchedSimulator
    from .batched import from_batched as from_batched
    from .brax import from_brax as from_brax
    from .canonical import FactoredEnv as FactoredEnv
    from .gymnax import from_gymnax as from_gymnax
    from .jaxmarl import from_jaxmarl as from_jaxmarl
    from .jumanji import from_jumanji as from_jumanji
    from .parallel_view import to_pettingzoo as to_pettingzoo
    from .playground import from_playground as from_playground
    from .sb3_ppo import PPO as PPO
    from .stable_baselines3 import to_stable_baselines3 as to_stable_baselines3
    from .vectors import FactoredVector as FactoredVector
    from .views import to_gymnasium as to_gymnasium
    from .wrapping import wrap as wrap
