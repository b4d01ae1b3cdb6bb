"""What the command line understands as a problem and as a network."""

import pytest

from factorax import plugins
from factorax.problems.registry import find_problem, leads_to, register


def test_problems_by_name():
    assert find_problem("queues:2x3").network.shape == (6, 6)
    assert find_problem("contextual-bandit").name == "contextual-bandit"
    assert find_problem("factorax.problems:chain").name == "chain"
    assert find_problem("CartPole-v1")().spec.id == "CartPole-v1"


def test_problems_take_settings():
    assert find_problem("chain:3,delay=2,horizon=7").delay == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("queues:2xtwo", "got the size '2xtwo' in 'queues:2xtwo', want whole numbers, as in queues:4"),
        ("chain:3,delays=9", "delays"),
        ("chain:3,delay", "got the setting 'delay', want name=value"),
        ("chain:3,delay=none", "delay: got 'none'"),
        ("nothing", "problem: got 'nothing'"),
        ("no.such:thing", "cannot import 'no.such:thing'"),
        (
            "os:getcwd",
            "got 'os:getcwd', which returns .*; want a function that returns a Problem or a Gymnasium environment",
        ),
        ("chain:5000", "got 'chain:5000', want at most 4,096 actions for a problem by name"),
        ("queues:99x99", "want at most 4,096 actions for a problem by name"),
        ("chain:3,delay=1000000000", "got delay=1000000000 in 'chain:3,delay=1000000000', want at most 100,000"),
        ("chain:3,horizon=1e9", "got horizon=1000000000.0 in .*, want at most 100,000"),
        ("queues:3x3,hops=9999999", "got hops=9999999 in .*, want at most 4,096"),
    ],
)
def test_what_is_wrong_with_a_name(name, said):
    with pytest.raises(ValueError, match=said):
        find_problem(name)


@pytest.fixture
def registered(monkeypatch):
    """A registry to write to."""
    monkeypatch.setattr(plugins, "_FAMILIES", dict(plugins.families()))


FAMILY = """
from functools import partial
import gymnasium as gym
from factorax.problems import chain
print("imported")
def problem(text):
    return chain(int(text or 3))
def environment(text):
    return partial(gym.make, text)
"""


@pytest.mark.usefixtures("registered")
def test_a_family_of_your_own_is_imported_when_it_is_used(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_families.py").write_text(FAMILY)
    monkeypatch.syspath_prepend(tmp_path)
    register("my-chain", "my_families:problem")
    register("my-gym", "my_families:environment")
    register("my-chain", "my_families:problem")  # once more does no harm
    assert capsys.readouterr().out == ""
    assert find_problem("my-chain:5").network.shape == (5, 5)
    assert find_problem("my-chain").network.shape == (3, 3)
    assert find_problem("my-gym:CartPole-v1")().spec.id == "CartPole-v1"
    assert capsys.readouterr().out == "imported\n"
    with pytest.raises(ValueError, match=r"want one of contextual-bandit, chain, .*, rddl.*, my-chain, my-gym"):
        find_problem("nothing")


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("prefix", "make", "message"),
    [
        ("chain", "my_families:problem", "prefix: got 'chain', which is already factorax.problems.families:chain"),
        ("my.chain", "my_families:problem", "prefix: got 'my.chain', want lower-case letters"),
        ("a:b", "my_families:problem", "prefix: got 'a:b', want lower-case letters"),
        ("", "my_families:problem", "prefix: got '', want lower-case letters"),
        ("mine", "my_families.problem", "make: got 'my_families.problem', want package.module:function"),
        ("mine", "my_families:", "make: got 'my_families:', want"),
    ],
)
def test_what_cannot_be_registered(prefix, make, message):
    before = dict(plugins._FAMILIES)
    with pytest.raises(ValueError, match=message):
        register(prefix, make)
    assert before == plugins._FAMILIES


@pytest.mark.usefixtures("registered")
def test_a_family_that_cannot_be_imported(tmp_path):
    register("mine", "no_such_module:problem")
    register("other", "factorax.problems.families:nothing")
    for name in ("mine:3", "other:3"):
        with pytest.raises(ValueError, match=f"problem: cannot import '{name}'"):
            find_problem(name)


@pytest.mark.usefixtures("registered")
def test_what_names_lead_to(tmp_path, monkeypatch):
    """Only names of the library and of Gymnasium stay inside; what was registered is code, with and without a colon."""
    monkeypatch.chdir(tmp_path)
    for name in ("chain:3", "chain", "queues:3x3,hops=2", "rddl:UAV_ippc2023/4", "nothing"):
        assert leads_to(name) == ""
    for name in (
        "gymnax:CartPole-v1,gravity=9.8",
        "jaxmarl:humanoid_9|8",
        "brax:ant,backend=spring",
        "jumanji:Snake-v1",
    ):
        assert leads_to(name) == ""
    for name in ("gymnax:a/b", "brax:ant,backend=../x", "gymnax:MNISTBandit-bsuite", "jumanji:Sokoban-v0,time_limit=9"):
        assert leads_to(name) == "files to be read"
    assert leads_to("CartPole-v1") == ""
    register("mine", "my_families:problem")
    for name in ("mine:3", "mine", "package.module:function", "chain.x:y", ":chain"):
        assert leads_to(name) == "code to be run"
    for name in (
        "rddl:a.rddl/b.rddl",
        "rddl:a//etc/b",
        "rddl:a/../b",
        "rddl:a/b\\c",
        "rddl:./x",
        "rddl:~/x",
        "rddl:a/b/c",
    ):
        assert leads_to(name) == "files to be read"
    (tmp_path / "UAV_ippc2023").touch()  # pyRDDLGym would read it
    assert leads_to("rddl:UAV_ippc2023/4") == "files to be read"


def test_rddl_is_made_when_it_is_needed():
    make = find_problem("rddl:UAV_ippc2023/4")
    assert make.args == ("UAV_ippc2023", "4")


def test_a_mistyped_family_is_told_the_nearest():
    with pytest.raises(ValueError, match=r"cannot import 'chian:4' .*; did you mean chain:4\?"):
        find_problem("chian:4")
