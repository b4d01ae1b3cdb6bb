"""What this distribution adds to factorax: the market, RLlib 0.7's PPO, presets, `reproduce` and `claims`."""

from pathlib import Path

from factorax.plugins import register as register_family
from factorax.plugins import register_choice, register_command


def register() -> None:
    """Register the family of problems, the method and the commands. Nothing of theirs is imported."""
    register_family(
        "market",
        "factorax_paper.market.families:market",
        example="market:10",
        files="",
        presets=Path(__file__).with_name("presets"),
    )
    register_choice("method", "rllib07", "factorax_paper.rllib07:RLlib07")
    register_command(
        "reproduce",
        "factorax_paper.commands:reproduce",
        "Run an experiment of the paper, or resume one that was stopped.",
    )
    register_command(
        "claims",
        "factorax_paper.commands:claims",
        "List the claims of the paper and of factorax with the measurements and verdicts.",
    )
