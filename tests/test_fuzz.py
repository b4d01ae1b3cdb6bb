"""Files from strangers: whatever is in them, loaders read them or raise ValueError, and nothing of it is run."""

import json
import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from signed_files import write_signed

from factorax import InfluenceNetwork, patterns, runs
from factorax.discovery import Discovery
from factorax.ppo import Config, checkpoints, find_network
from factorax.ppo.model_files import named_in
from factorax.problems import find_problem
from factorax.rollouts.episodes import Episode, from_arrays, to_arrays
from factorax.runs.folder import FORMAT

STATE = {"weights": jnp.ones((3, 2)), "key": jax.random.key(0), "steps": jnp.int32(7)}
EPISODES = [Episode(3, (np.ones((4, 2), np.float32),), np.ones(5, np.float32)), Episode(4, (), np.ones(5, np.float32))]
ODD = [
    None,
    True,
    -1,
    0,
    2**31,
    2**64,
    10**40,
    -1e308,
    0.5,
    "",
    "own",
    "../../x",
    "\x00",
    "é" * 9,
    [],
    [[]],
    {},
    {"a": 1},
]


def checkpoint(path):
    _, beside = checkpoints.load(path, STATE)
    if beside:
        from_arrays(beside, 2, 5, 2)


def of_problem(path):
    names = named_in(path)
    return find_network(find_problem(names.problem), names.network or "own")


LOADERS = {
    "network.json": InfluenceNetwork.load,
    "hard.npz": InfluenceNetwork.load,
    "soft.npz": InfluenceNetwork.load,
    "state.safetensors": checkpoint,
    "named.safetensors": of_problem,
    "found.safetensors": Discovery.load,
    "config.json": lambda path: Config.read(runs.read_config(path.parent)["config"]),
    "metrics.jsonl": lambda path: runs.read_metrics(path.parent),
}


def write(folder):
    """A good file of every kind."""
    patterns.banded(4, 2).save(folder / "network.json")
    patterns.banded(4, 2).save(folder / "hard.npz")
    InfluenceNetwork(np.array([[0.5, 0.0], [1.0, 0.25]])).save(folder / "soft.npz")
    checkpoints.save(folder / "state.safetensors", STATE, {"timesteps": 7}, to_arrays(EPISODES))
    arrays = load_file(folder / "state.safetensors")
    names = {"format": 1, "problem": "chain:3,delay=2", "network": "adaptive:own"}
    write_signed(folder / "named.safetensors", arrays, names)
    zeros = np.zeros((2, 2))
    found = {"effect": zeros, "p_value": zeros, "samples": zeros.astype(int), "method": "score", "kind": "return"}
    Discovery(**found, actions=("a", "b"), targets=("c", "d")).save(folder / "found.safetensors")
    settings = Config(critic="factor,trunk=shared", distribution="tanh,initial_log_std=-1.0").to_json()
    config = {"format": FORMAT, "problem": "chain:3", "network": "own", "config": settings}
    (folder / "config.json").write_text(json.dumps(config))
    rows = [{"time/total_timesteps": 40 * k, "train/loss": 0.5, "factor/kl": [0.1, 0.2]} for k in range(3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def with_other_bytes(rng, data):
    """Some of them changed, cut, doubled, or noise in between."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([1, 1, 4, 8, 64]))
        match rng.randrange(5):
            case 0:
                data[at:end] = rng.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end]
            case 3:
                data[at:at] = rng.choice([b"0", b"[" * 2000, b"9" * 30, b"\xff", b'"', b"}", b"NaN", b"\x00" * 8])
            case 4:
                data = data[:at] if rng.random() < 0.2 else data
        data = data or bytearray(b"\x00")
    return bytes(data)


def with_another_value(rng, data):
    """JSON that is well formed, with something odd somewhere."""

    def change(value):
        inside = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
        if not inside or rng.random() < 0.2:
            return rng.choice(ODD)
        key = rng.choice(list(inside))
        if isinstance(value, dict) and rng.random() < 0.1:
            return {**{k: v for k, v in value.items() if k != key}, str(rng.choice(ODD)): value[key]}
        new = dict(value) if isinstance(value, dict) else list(value)
        new[key] = change(value[key])
        return new

    lines = data.splitlines() if data.count(b"\n{") else [data]
    at = rng.randrange(len(lines))
    lines[at] = json.dumps(change(json.loads(lines[at]))).encode()
    return b"\n".join(lines)


def with_another_header(rng, data):
    """A safetensors file whose header is well formed, and odd."""
    length = int.from_bytes(data[:8], "little")
    header = with_another_value(rng, data[8 : 8 + length].strip())
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


@pytest.mark.parametrize("files", [2_000, pytest.param(100_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.filterwarnings("ignore")  # a network may be odd and still be one
def test_mutated_files_load_or_raise_value_error(name, files, tmp_path):
    write(tmp_path)
    load, path = LOADERS[name], tmp_path / name
    load(path)
    good, refused = path.read_bytes(), 0
    structured = {"json": with_another_value, "jsonl": with_another_value, "safetensors": with_another_header}
    for k in range(files // len(LOADERS)):
        rng = random.Random(f"{name} {k}")
        mutate = structured.get(name.partition(".")[2], with_other_bytes) if rng.random() < 0.5 else with_other_bytes
        data = mutate(rng, good)
        path.write_bytes(data)
        try:
            load(path)
        except ValueError as error:
            refused += len(str(error)) > 0
        except Exception as error:
            error.add_note(f"file {k} of {name}: {data[:300]!r}")
            raise
    assert refused > files // len(LOADERS) // 4


def test_zip_bomb_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("factorax.structure.storage.MAX_UNPACKED_BYTES", 2**20)
    np.savez_compressed(tmp_path / "bomb.npz", header=np.array("{}"), indptr=np.zeros(2**20))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**16
    with pytest.raises(ValueError, match=r"would take 8,.* bytes of memory, want at most 1,048,576"):
        InfluenceNetwork.load(tmp_path / "bomb.npz")


def test_pickled_object_in_a_file_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(tmp_path / "evil.npz", header=np.array(Evil(), object), indptr=np.array([Evil()], object))
    with pytest.raises(ValueError, match="no readable header"):
        InfluenceNetwork.load(tmp_path / "evil.npz")
    assert not (tmp_path / "ran").exists()
