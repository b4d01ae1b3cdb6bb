"""Run folders from strangers, by what is wrong with each: made from a good one, and loaded as `factorax` does."""

import contextlib
import io
import json
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from factorax import InfluenceNetwork, runs
from factorax.ppo import FactoredPPO, checkpoints

DEEP = "[" * 100_000
MARKUP = "[red]x[/red][/]"
ESCAPE = "\x1b[2J\x9b31m\u202e"


def config(out, **entries):
    """Other entries in config.json."""
    path = out / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def settings(out, **values):
    """Other settings in config.json."""
    config(out, config=json.loads((out / "config.json").read_text())["config"] | values)


def last(out):
    return out / "checkpoints" / "last.safetensors"


def metadata(out, text):
    save_file(load_file(last(out)), last(out), metadata={"factorax": text})


def with_array(out, name, change):
    """An array of the checkpoint changed, with a checksum that fits."""
    from signed_files import write_signed  # not in the process that loads bombs, which has another path

    about, arrays = checkpoints.about(last(out)), load_file(last(out))
    arrays[name] = change(arrays[name])
    write_signed(last(out), arrays, about)


def network(out, data=None, *, name="k.npz", **header):
    """A file of a network in the folder: bytes, or an archive with this header."""
    config(out, network=name)
    path = out / "network.json"
    if data is None:
        InfluenceNetwork.identity(3).save(out / "k.npz")
        with np.load(out / "k.npz") as archive:
            arrays = dict(archive)
        (out / "k.npz").unlink()
        content = json.loads(str(arrays["header"])) | {"actions": None, "targets": None} | header
        np.savez_compressed(path.with_suffix(".npz"), **arrays | {"header": np.array(json.dumps(content))})
        path.with_suffix(".npz").rename(path)
    else:
        path.write_bytes(data)


def many_rows(out):
    network(out, b"")
    header = {"format": "factorax.InfluenceNetwork", "version": 1, "shape": [10**8, 3], "soft": False}
    with zipfile.ZipFile(out / "network.json", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in {"header": np.array(json.dumps(header)), "indices": np.zeros(0, np.int32)}.items():
            file = io.BytesIO()
            np.save(file, array)
            archive.writestr(f"{name}.npy", file.getvalue())
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (10**8 + 1,)})
        with archive.open("indptr.npy", "w", force_zip64=True) as part:
            part.write(file.getvalue())
            for _ in range(100):
                part.write(bytes(10**6))
            part.write(b"\0")


def linked(path, to):
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(to)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def problem(out, name):
    config(out, problem=name)


BOMBS = {
    "2³¹ columns": lambda out: network(out, shape=[3, 2**31 - 1]),
    "10⁸ rows": many_rows,
    "a long chain": lambda out: problem(out, "chain:100000"),
    "a slow chain": lambda out: problem(out, "chain:3,delay=1000000000"),
    "many queues": lambda out: problem(out, "queues:99999x99999"),
    "many hops": lambda out: problem(out, "queues:3x3,hops=1000000000"),
    "many switches": lambda out: problem(out, "contextual-bandit:1000000000"),
    "a large problem": lambda out: (problem(out, "queues:64x64"), settings(out, hidden=[2**16])),
    "a device as settings": lambda out: linked(out / "config.json", "/dev/zero"),
    "a device as a checkpoint": lambda out: linked(last(out), "/dev/zero"),
    "a device as a network": lambda out: (network(out, b""), linked(out / "network.json", "/dev/zero")),
    "a pipe as settings": lambda out: pipe(out / "config.json"),
    "a pipe as a checkpoint": lambda out: pipe(last(out)),
    "a pipe as a network": lambda out: (network(out, b""), pipe(out / "network.json")),
    "a checkpoint of holes": lambda out: os.truncate(last(out), 2**40),
    "settings of holes": lambda out: os.truncate(out / "config.json", 2**40),
}
"""Each would take all memory, or for ever."""
DAMAGED = {
    "metadata of a list": lambda out: metadata(out, "[1]"),
    "deep metadata": lambda out: metadata(out, DEEP),
    "metadata of nothing": lambda out: metadata(out, "null"),
    "an odd name": lambda out: metadata(out, json.dumps(checkpoints.about(last(out)) | {"problem": [1]})),
    "no checksum": lambda out: metadata(out, json.dumps(checkpoints.about(last(out)))),
    "NaN parameters": lambda out: with_array(out, ".agent.policy.spread.log_std", lambda x: x * np.nan),
    "infinite moments": lambda out: with_array(out, ".obs.mean", lambda x: x + np.float32(np.inf)),
    "deep settings": lambda out: (out / "config.json").write_text(DEEP),
    "settings of a list": lambda out: (out / "config.json").write_text("[1]"),
    "many values": lambda out: (out / "config.json").write_text("[" + "[]," * 200_000 + "1]"),
    "a folder as settings": lambda out: ((out / "config.json").unlink(), (out / "config.json").mkdir()),
    "a loop of links": lambda out: linked(out / "config.json", "config.json"),
    "adaptive for ever": lambda out: config(out, network="adaptive:" * 3000),
    "adaptive twice": lambda out: config(out, network="adaptive:adaptive:k.json"),
    "a deep network": lambda out: network(out, DEEP.encode()),
    "a network of nothing": lambda out: network(out, b""),
    "an odd network": lambda out: network(out, shape=[2**20, 2**20]),
    "a name with markup": lambda out: config(out, network=MARKUP),
    "a name with escapes": lambda out: config(out, network=ESCAPE),
    "a problem with escapes": lambda out: problem(out, f"chain:{ESCAPE}{MARKUP}"),
    "an unknown problem": lambda out: problem(out, f"{ESCAPE}{MARKUP}"),
    "half a surrogate": lambda out: problem(out, "chain:\ud800"),
    "a zero byte": lambda out: config(out, network="a\0b.json"),
    "a setting of text": lambda out: settings(out, gamma=ESCAPE),
    "code": lambda out: problem(out, "os:getcwd"),
    "a model of RDDL": lambda out: problem(out, f"rddl:{out.name}//tmp/a.rddl"),
    "steps without end": lambda out: problem(out, f"chain:{'9' * 5000}"),
}
"""Each is refused with a ValueError."""


def is_refused(out):
    """Whether settings or model are refused with ValueError, or said to be missing; any other error is raised."""
    try:
        runs.read_config(out)
        FactoredPPO.load(out)
    except (ValueError, FileNotFoundError):
        return True
    return False


SECONDS = 5
"""Of the processor, for a file that is refused: reading what a bomb announces would take minutes, or all memory."""


def bombs(good, scratch):
    """Load every bomb; returns those that were not refused, or took long."""
    wrong = []
    for name, change in BOMBS.items():
        out = Path(scratch) / "run"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(good, out)
        change(out)
        before = time.process_time()
        if not is_refused(out):
            wrong.append(f"{name} is accepted")
        elif time.process_time() - before > SECONDS:
            wrong.append(f"{name} takes {time.process_time() - before:.1f} s")
    return wrong


def peak():
    """The most memory that this process has taken, in KiB; that of the process that started it does not count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    for line in bombs(*sys.argv[1:]):
        print(line)
    if peak() > 500_000:
        print(f"took {peak():,} KiB")
