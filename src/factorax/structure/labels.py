"""Labels of actions and targets: validation, abbreviation and lookup."""

from collections import Counter
from collections.abc import Iterable, Sequence

from .._checks import listed
from .._text import counted, did_you_mean, some


def sizes_label(n: int, m: int, n_edges: int, kind: str = "") -> str:
    """Return the sizes of a network in the form of its `repr`: ``2 actions → 1 target, 2 edges``."""
    return f"{counted(n, 'action')} → {counted(m, 'target')}, {counted(n_edges, f'{kind}edge')}"


def edge_label(action: str, target: str) -> str:
    """Return an edge in the form used in messages and metrics: ``a1 → psi1``."""
    return f"{action} → {target}"


def default_labels(prefix: str, size: int) -> tuple[str, ...]:
    """Return the paper's labels, counted from one: ``a1, a2, …`` and ``psi1, psi2, …``."""
    return tuple(f"{prefix}{i}" for i in range(1, size + 1))


def custom_labels(labels: tuple[str, ...] | None, prefix: str) -> tuple[str, ...] | None:
    """Return the labels unless they are the default labels, which are None."""
    return None if not labels or labels == default_labels(prefix, len(labels)) else labels


def check_labels(labels: Iterable[object], size: int | None, argument: str) -> tuple[str, ...]:
    """Return labels as unique strings; raise if their number is not `size`, or if labels repeat."""
    names = tuple(str(label) for label in listed(argument, labels, "a list of labels"))
    if size is not None and len(names) != size:
        raise ValueError(
            f"{argument}: got {counted(len(names), 'label')}, want {size}, one for each "
            f"{'row' if argument == 'actions' else 'column'} of the influence matrix"
        )
    try:
        # Labels are written to files and sent to terminals; a lone surrogate can be neither.
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{argument}: got a label with {error.object[error.start]!r}, want text that UTF-8 can encode"
        ) from None
    if len(set(names)) < len(names):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"{argument}: got {some(repeated)} more than once; want unique labels")
    if not names:
        raise ValueError(f"{argument}: got an empty list, want at least one label")
    return names


def check_distinct(actions: Sequence[str], targets: Sequence[str]) -> None:
    """Raise ValueError if a name labels both an action and a target of a network."""
    clash = sorted(set(actions) & set(targets))
    if clash:
        raise ValueError(
            f"net: {some(clash)} names both an action and a target; want different names: rename one of them with "
            "relabel()"
        )


def join_labels(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return one name per group: the name of a single member, or ``a1+a2``, with primes added if it is in use."""
    groups = list(groups)
    used = {group[0] for group in groups if len(group) == 1}
    names = []
    for group in groups:
        name = "+".join(group)
        # A single action may have the label ``a+b``.
        while len(group) > 1 and name in used:
            name += "′"
        used.add(name)
        names.append(name)
    return tuple(names)


def positions(wanted: Iterable[object], known: Sequence[str], argument: str) -> list[int]:
    """Return the index of each wanted label among the known ones; raise ValueError for unknown labels."""
    # A dictionary, so that a list of edges takes linear time.
    index = {name: i for i, name in enumerate(known)}
    names = [str(w) for w in listed(argument, wanted, "a list of labels")]
    unknown = sorted({n for n in names if n not in index})
    if unknown:
        hint = did_you_mean(unknown[0], known, quoted=True)
        raise ValueError(f"{argument}: unknown label {some(unknown)}; known: {some(known)}{hint}")
    return [index[n] for n in names]
