"""PPO on instance 4 of UAV, ten aircraft, with the network derived from the RDDL model."""

from ..harness import uav_study

EXPERIMENT = uav_study.experiment("4", crafts=10, steps=24_000)
