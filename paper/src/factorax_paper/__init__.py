"""The paper *Factored Policy Gradients*: its experiments and their claims, the market, and EV2Gym."""
