"""Plug-ins: families of problems, commands and choices of settings, by name. Their code is imported when it is used.

A distribution connects itself to the library by an entry point of the group ``factorax.plugins``, the name of a
function without arguments that calls `register`, `register_command` and `register_choice`:

```toml
[project.entry-points."factorax.plugins"]
tanks = "tanks.plugin:register"
```

All of them can also be registered by any code that runs before their names are used.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

GROUP = "factorax.plugins"
_REFERENCE = re.compile(r"\w+(\.\w+)*:\w+")
_NAMES_OF_DISTRIBUTIONS = {
    "factorax-traffic": ("traffic", "sumo", "resco", "watch"),
    "factorax-paper": ("market", "reproduce", "claims"),
}
"""Names of families and commands of our other distributions, for the message when one is not installed."""


@dataclass(frozen=True)
class Family:
    """A family of problems: all names that start with ``prefix:``.

    References have the form ``package.module:function``.
    """

    prefix: str
    make: str
    """Reference to a function from the text after the colon to a `Problem` or a factory of environments."""
    example: str = ""
    """Name of a problem of the family, which `controllers` are scored on by default."""
    presets: Path | None = None
    """Folder of presets, one TOML file each; see `factorax.ppo.presets`."""
    files: str | None = None
    """Reference to a function from the text after the colon to whether loading the problem reads files that the text
    names; ``""`` if it never does. By default, a name in a run folder of somebody else counts as code, and is loaded
    only on request."""
    simulators: Mapping[str, str] = field(default_factory=dict)
    """Other simulators of the same problem: name → reference to a function from a problem's name to the name there."""
    controllers: tuple[str, ...] = ()
    """Names of controllers that policies are compared with; the first is shown in reports."""
    returns: str | None = None
    """Reference to ``returns(controller, problem, *, episodes, seed)``: the return of each episode, or None if the
    controller does not know this problem of the family."""
    film: str | None = None
    """Reference to ``film(problem, runs, *, trusted)`` from folders of runs and their titles to a dictionary with the
    texts ``name`` and ``caption``, and with ``film``, data for the `player`; None if the problem has no film."""
    player: str | None = None
    """Reference to a function that returns the JavaScript and the style sheet of a player. The script defines
    ``factoraxFilm(element, film)``."""
    layout: str | None = None
    """Reference to ``layout(problem, network)``: where reports draw ``actions``, as points, and ``targets``, as pairs
    of points; None if the problem has no map."""


@dataclass(frozen=True)
class Command:
    """A command of ``factorax``, with the first line of its help, so that ``factorax --help`` does not import it."""

    function: str
    about: str


_FAMILIES: dict[str, Family] = {}
_COMMANDS: dict[str, Command] = {}
_CHOICES: dict[tuple[str, str], str] = {}


def register(prefix: str, make: str, **options: Any) -> None:
    """Register a family of problems, so that ``prefix:text`` is a name for `find_problem` and on the command line.

    **Arguments**

    - `prefix`: lower-case letters, digits and hyphens; it must not be in use.
    - `make`: ``"package.module:function"``. The module is imported when a problem of the family is first used.
      The function takes the text after the colon (``""`` if there is none) and returns a `Problem` or a function that
      returns a Gymnasium environment.
    - `options`: the other fields of `Family`.

    >>> from factorax.problems import find_problem
    >>> register("my-chain", "factorax.problems.families:chain")
    >>> find_problem("my-chain:5").network.shape
    (5, 5)
    """
    if not isinstance(prefix, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", prefix):
        raise ValueError(f"prefix: got {prefix!r}, want lower-case letters, digits and hyphens, as in my-problem")
    family = Family(prefix, make, **options)
    # Here, since a wrong reference would otherwise fail much later, far from the plug-in that has it.
    for name in ("make", "files", "returns", "film", "player", "layout"):
        _check_reference(name, getattr(family, name), optional=name != "make")
    for reference in family.simulators.values():
        _check_reference("simulators", reference)
    # Registering the same family again is fine: a module may be reloaded.
    if _FAMILIES.get(prefix, family) != family:
        raise ValueError(f"prefix: got {prefix!r}, which is already {_FAMILIES[prefix].make}; want another prefix")
    _FAMILIES[prefix] = family


def register_command(name: str, function: str, about: str) -> None:
    """Register a command: ``factorax NAME`` calls a function whose parameters are its options, as for tyro.

    - `function`: ``"package.module:function"``, imported when the command is used.
    - `about`: the first line of its help.
    """
    _check_reference("function", function)
    command = Command(function, about)
    if _COMMANDS.get(name, command) != command:
        raise ValueError(f"name: got {name!r}, which is already {_COMMANDS[name].function}; want another name")
    _COMMANDS[name] = command


def register_choice(setting: str, name: str, kind: str) -> None:
    """Register something that a setting of `factorax.ppo.Config` may be, such as a `method`, by name.

    - `kind`: ``"package.module:Class"``, a subclass of `Choice`, imported when settings are first read.
    """
    _check_reference("kind", kind)
    if _CHOICES.get((setting, name), kind) != kind:
        raise ValueError(f"name: got {name!r}, which is already {_CHOICES[setting, name]}; want another name")
    _CHOICES[setting, name] = kind


def choices() -> Mapping[tuple[str, str], str]:
    """Return the references of the choices of plug-ins by setting and name."""
    _load()
    return _CHOICES


def families() -> Mapping[str, Family]:
    """Return all families by prefix, those of installed plug-ins included."""
    _load()
    return _FAMILIES


def commands() -> Mapping[str, Command]:
    """Return the commands of plug-ins by name."""
    _load()
    return _COMMANDS


def family_of(problem: str) -> Family | None:
    """Return the family of a problem's name, or None.

    >>> family_of("chain:8").prefix, family_of("CartPole-v1")
    ('chain', None)
    """
    # A name without a colon may be a prefix, too: its family then gets the empty text.
    return families().get(problem.partition(":")[0])


def reference_controller(problem: str) -> str:
    """Return the name of the controller that policies on a problem are compared with, or ''."""
    family = family_of(problem)
    return family.controllers[0] if family is not None and family.controllers else ""


def controller_names() -> list[str]:
    """Return the names of the controllers of all families."""
    return list(dict.fromkeys(name for family in families().values() for name in family.controllers))


def imported(reference: str) -> Any:
    """Return the object that ``package.module:name`` refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def missing_distribution(name: str) -> str:
    """Return which distribution has a family or command that is not installed, as the end of a message, or ''.

    >>> missing_distribution("chains")
    ''
    """
    for distribution, names in _NAMES_OF_DISTRIBUTIONS.items():
        # Another plug-in may have taken the name.
        if name in names and name not in families() and name not in commands():
            return f"; {name} is part of {distribution}, which is not installed: pip install {distribution}"
    return ""


def _check_reference(name: str, reference: Any, *, optional: bool = False) -> None:
    if optional and not reference:
        return
    # Only the form: whether it exists is known after an import, which registration must not cost.
    if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{name}: got {reference!r}, want package.module:function")


# At first use and not on import: plug-ins import factorax, which imports this module.
@cache
def _load() -> None:
    """Call the functions of all installed plug-ins, once. One that fails costs its own names only."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()()
        # A broken plug-in must not keep anybody from training on something else.
        except Exception as error:
            warnings.warn(f"plug-in {entry.name}: {entry.value} failed ({error}); its names are missing", stacklevel=2)


_HERE = "factorax.problems.families"
for _name in ("contextual-bandit", "chain", "queues"):
    # They read no files, so that a run folder of somebody else may name them without being trusted.
    register(_name, f"{_HERE}:{_name.replace('-', '_')}", files="")
for _name in ("gymnax", "jaxmarl", "brax", "playground", "jumanji"):
    register(_name, f"factorax.integrations.{_name}:named", files=f"{_HERE}:files_of_package")
register("rddl", "factorax.integrations.rddl:named", files=f"{_HERE}:files_of_rddl")
