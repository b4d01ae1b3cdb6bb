"""Which experiments there are, and how they are found."""

import pytest
from factorax_paper.experiments import BANDITS, NAMES, find
from tiny_experiments import every_experiment


@every_experiment
@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_the_budgets_are_made_of_parts_that_can_be_told_apart(name, budget):
    assert find(name).budgets.keys() == {"quick", "paper"}
    todo = find(name).parts(find(name).budgets[budget], 0)
    assert all(part.cost > 0 for part in todo)
    assert len({part.name for part in todo}) == len(todo) > 1


def test_every_experiment_has_a_name_and_a_place():
    assert [find(name).name for name in NAMES] == list(NAMES)
    assert len({find(name).paper for name in BANDITS}) == len({find(name).title for name in BANDITS}) == len(BANDITS)


def test_a_slip_of_the_pen_is_told_what_was_meant():
    with pytest.raises(ValueError, match=r"did you mean search-stability\?"):
        find("search-stabilty")
