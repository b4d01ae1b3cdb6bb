"""PPO on instance 5 of UAV, forty aircraft, with the network derived from the RDDL model."""

from ..harness import uav_study

EXPERIMENT = uav_study.experiment("5", crafts=40, steps=16_000)
