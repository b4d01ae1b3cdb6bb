"""Presets: named, tuned settings, one TOML file each in the folder ``presets``, or in that of a plug-in.

A file has the entries

- ``about``: one sentence with the measured result and the command that reproduces it;
- ``problems``: patterns (as in `fnmatch`) of the problems that use this preset by default; may be empty;
- ``network``: the name of the influence network, as for ``factorax train --network``; by default that of the problem;
- ``[settings]``: fields of `Config`, with ``"none"`` for None; the others keep their defaults.
"""

import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from .._checks import did_you_mean, shown
from ..plugins import families
from .config import CHOICES, WHO_STEPS, Config, menus

NONE = "none"
"""The name of the empty preset: the defaults of `Config`."""
_FOLDER = Path(__file__).with_name("presets")
_NOT_TUNED = {"seed", *WHO_STEPS}
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


def preset_names() -> list[str]:
    """Return the names of all presets.

    >>> "queues" in preset_names()
    True
    """
    return sorted(_files())


def _files() -> dict[str, Path]:
    """Return the files of all presets by name: those of the library, and of the families of plug-ins."""
    folders = dict.fromkeys([_FOLDER, *(each.presets for each in families().values() if each.presets is not None)])
    return {path.stem: path for folder in folders for path in folder.glob("*.toml")}


def read_preset(name: str) -> Preset:
    """Return the preset of this name; raise ValueError for an unknown name, with the nearest known one.

    >>> read_preset("queues").settings["gamma"]
    0.9
    >>> read_preset("queue")
    Traceback (most recent call last):
    ValueError: preset: got 'queue', want none, ...; did you mean 'queues'?
    """
    files = _files()
    if name not in files:
        names = sorted(files)
        hint = did_you_mean(name, [NONE, *names], quoted=True)
        raise ValueError(f"preset: got {shown(name)}, want {', '.join([NONE, *names[:-1]])} or {names[-1]}{hint}")
    return _read(files[name])


def preset_for(problem: str) -> Preset | None:
    """Return the preset that a problem uses by default, or None.

    >>> preset_for("queues:4x4").name, preset_for("CartPole-v1")
    ('queues', None)
    """
    for name in preset_names():
        preset = read_preset(name)
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is not valid TOML ({error})") from error
    known = {field.name for field in fields(Preset)} - {"name"}
    for entry in content.keys() - known:
        raise ValueError(f"{path}: {entry}: unknown entry{did_you_mean(entry, known)}")
    about, problems, network = (content.get(entry) for entry in ("about", "problems", "network"))
    if not isinstance(about, str) or not about.strip():
        raise ValueError(f"{path}: about: got {shown(about)}, want a sentence with the result and the command")
    if not isinstance(problems, list) or not all(isinstance(each, str) for each in problems):
        raise ValueError(f'{path}: problems: got {shown(problems)}, want a list of patterns, as in ["queues:*"]')
    if network is not None and not isinstance(network, str):
        raise ValueError(f"{path}: network: got {shown(network)}, want the name of a network, or omit the entry")
    settings = _checked_settings(path, content.get("settings"))
    return Preset(name=path.stem, about=about, settings=settings, problems=tuple(problems), network=network)


def _checked_settings(path: Path, settings: Any) -> dict[str, Any]:
    """Return settings converted to the types of their fields; raise ValueError with the name of an invalid one."""
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: settings: got {shown(settings)}, want a table [settings] of fields of Config")
    settings = {name: None if value == "none" and name in _OPTIONAL else value for name, value in settings.items()}
    for name in settings.keys() & _NOT_TUNED:
        raise ValueError(f"{path}: settings.{name}: is a setting of a run, not of a preset; remove it")
    try:
        config = Config.of(settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: settings.{error}") from error
    return {name: getattr(config, name) if name not in CHOICES else value for name, value in settings.items()}
