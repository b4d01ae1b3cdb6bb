"""Presets: named, tuned settings, one TOML file each in the folder ``presets``, or in that of a plug-in.

A file has the entries

- ``about``: one sentence with the measured result and the command that reproduces it;
- ``problems``: patterns (as in `fnmatch`) of the problems that use this preset by default; may be empty;
- ``network``: the name of the influence network, as for ``factorax train --network``; by default that of the problem;
- ``[settings]``: fields of `Config`, with ``"none"`` for None; the others keep their defaults.
"""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from .._checks import check_type, checked
from .._text import did_you_mean, shown
from ..plugins import families
from .config import WHO_STEPS, Config, menus

NONE = "none"
"""The name of the empty preset: the defaults of `Config`."""
_FOLDER = Path(__file__).with_name("presets")
_ENTRIES = {"about", "problems", "network", "settings"}
_OPTIONAL = {name for name, kind in get_type_hints(Config).items() if NoneType in get_args(kind)}
"""Settings that may be None, written ``"none"`` because TOML has no null."""


@dataclass(frozen=True)
class Preset:
    """Tuned settings with a name."""

    name: str
    about: str
    """One sentence with the measured result and the command that reproduces it."""
    settings: dict[str, Any]
    """Values of fields of `Config`; the others have their defaults."""
    problems: tuple[str, ...] = ()
    """Patterns of the problems that use it by default, such as ``queues:*``."""
    network: str | None = None
    """Name of the network; None for that of the problem."""

    @property
    def config(self) -> Config:
        """All settings: those of the preset, and the defaults of the others."""
        return Config.of(self.settings)


def presets() -> dict[str, Preset]:
    """Return all presets by name: those of the library, and of the families of plug-ins.

    >>> "queues" in presets()
    True
    """
    # Families that share a folder, such as those of one plug-in, are read once.
    folders = dict.fromkeys([_FOLDER, *(each.presets for each in families().values() if each.presets is not None)])
    files = {path.stem: path for folder in folders for path in folder.glob("*.toml")}
    return {name: _read(files[name]) for name in sorted(files)}


def read_preset(name: str) -> Preset:
    """Return the preset of this name; raise ValueError for an unknown name, with the nearest known one.

    >>> read_preset("queues").settings["gamma"]
    0.9
    >>> read_preset("queue")
    Traceback (most recent call last):
    ValueError: preset: got 'queue', want none, ...; did you mean 'queues'?
    """
    known = presets()
    if name not in known:
        *most, last = [NONE, *known]
        hint = did_you_mean(name, [*most, last], quoted=True)
        raise ValueError(f"preset: got {shown(name)}, want {', '.join(most)} or {last}{hint}")
    return known[name]


def preset_for(problem: str) -> Preset | None:
    """Return the preset that a problem uses by default, or None.

    >>> preset_for("queues:4x4").name, preset_for("CartPole-v1")
    ('queues', None)
    """
    for preset in presets().values():
        if any(fnmatchcase(problem, pattern) for pattern in preset.problems):
            return preset
    return None


def settings_with(preset: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a preset (or of none) and of the method, with overrides, as arguments of `Config`.

    >>> settings_with("queues", {"n_envs": 32})["gamma"]
    0.9
    >>> settings_with("none", {"method": "ppo"})
    {'policy': 'joint', 'method': 'ppo'}
    """
    tuned = {} if preset == NONE else read_preset(preset).settings
    method = menus()["method"].read(overrides.get("method", tuned.get("method", "factored"))).settings
    # A preset that names its method was tuned with it; a method of the user overrides what was tuned for another.
    return (method | tuned if "method" in tuned and "method" not in overrides else tuned | method) | overrides


def network_of(preset: str, method: Any = None) -> str | None:
    """Return the name of the network of a `Method` or preset; None for that of the problem."""
    of_method = None if method is None else method.network_name
    return of_method or (None if preset == NONE else read_preset(preset).network)


@cache
def _read(path: Path) -> Preset:
    """Return the preset in a file; raise ValueError with the file and the entry."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for entry in content.keys() - _ENTRIES:
            raise ValueError(f"{entry}: unknown entry{did_you_mean(entry, _ENTRIES)}")
        about = checked("about", content.get("about"), str)
        problems = checked("problems", content.get("problems"), tuple[str, ...])
        network = checked("network", content.get("network"), str | None)
        settings: Any = content.get("settings")
        check_type("settings", settings, dict, "a table [settings] of fields of Config")
        for name in settings.keys() & {"seed", *WHO_STEPS}:
            raise ValueError(f"settings.{name}: is a setting of a run, not of a preset; remove it")
        config = Config.of({name: None if name in _OPTIONAL and x == "none" else x for name, x in settings.items()})
    except (ValueError, TypeError) as error:  # of TOML and of its encoding, too
        raise ValueError(f"{path}: {error}") from error
    # As the fields of `Config` have them, whose types TOML does not know.
    settings = {name: getattr(config, name) for name in settings}
    return Preset(name=path.stem, about=about, settings=settings, problems=problems, network=network)
