"""Files of discoveries: everything is kept, and damaged files are refused."""

import numpy as np
import pytest
from discovery.result_cases import make_discovery

from factorax.discovery import Discovery


def test_files_keep_everything(tmp_path):
    step = make_discovery("interventional", notes=("one",))
    whole = make_discovery(
        "interventional", also={"one-step": step}, steps=12, targets=("p", "q", "ψ"), effect_unit="x",
        streams="shifted", relative=np.full((2, 3), 0.5), lacks_reactions=True,
    )  # fmt: skip
    whole.save(tmp_path / "found.safetensors")
    again = Discovery.load(tmp_path / "found.safetensors")
    for name in (
        "method",
        "kind",
        "loop",
        "effect_unit",
        "notes",
        "steps",
        "streams",
        "lacks_reactions",
        "actions",
        "targets",
    ):
        assert getattr(again, name) == getattr(whole, name)
    for name in ("effect", "p_value", "samples"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
        np.testing.assert_array_equal(getattr(again.also["one-step"], name), getattr(step, name))
    np.testing.assert_array_equal(again.relative, whole.relative)
    assert again.also["one-step"].relative is None
    assert again.also["one-step"].notes == ("one",)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "found.safetensors"
    make_discovery().save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(data)) if rng.random() < 0.3 else None])
        try:
            assert Discovery.load(path).shape == (2, 3)
        except ValueError as error:
            assert "not a discovery of factorax, or damaged" in str(error)  # noqa: PT017
    path.write_bytes(data.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(ValueError, match="written in format 9, this factorax reads up to 1"):
        Discovery.load(path)
