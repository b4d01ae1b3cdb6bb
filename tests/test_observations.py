"""Observation spaces as rows, and what networks see of them."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from factorax.observations import ObservationSpace

CAMERA = spaces.Box(0, 255, (4, 5, 3), np.uint8)
COMPOUND = spaces.Dict(
    {
        "camera": CAMERA,
        "pose": spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        "mode": spaces.Tuple([spaces.Discrete(3, start=5), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)]),
    }
)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_observation_survives_the_round_trip_through_a_row(xp):
    layout, rng = ObservationSpace.of(COMPOUND), np.random.default_rng(0)
    COMPOUND.seed(0)
    elements = [COMPOUND.sample() for _ in range(4)]
    rows = np.stack([layout.row(element) for element in elements])
    assert rows.shape == (4, layout.size) == (4, 60 + 6 + 1 + 2 + 2)
    structured = lambda rows: layout.structured(rows, xp)  # noqa: E731
    seen = structured(rows) if xp is np else jax.device_get(jax.jit(structured)(rows))
    for i, element in enumerate(elements):
        np.testing.assert_allclose(seen["camera"][i], element["camera"] / 255, rtol=1e-6)
        np.testing.assert_array_equal(seen["pose"][i], element["pose"])
        one, several, flags = seen["mode"]
        np.testing.assert_array_equal(one[i], np.eye(3)[element["mode"][0] - 5])
        want = np.concatenate([np.eye(2)[element["mode"][1][0]], np.eye(3)[element["mode"][1][1]]])
        np.testing.assert_array_equal(several[i], want)
        np.testing.assert_array_equal(flags[i], element["mode"][2])
    order = rng.permutation(4)
    batched, is_one = layout.batch(gym.vector.utils.concatenate(
        COMPOUND, [elements[i] for i in order], gym.vector.utils.create_empty_array(COMPOUND, 4)
    ))  # fmt: skip
    assert not is_one
    np.testing.assert_array_equal(batched, rows[order])


def test_float_boxes_are_not_encoded():
    layout = ObservationSpace.of(spaces.Box(-1.0, 1.0, (2, 3), np.float32))
    rows = np.arange(12.0).reshape(2, 6)
    assert layout.is_plain
    assert layout.encoded(rows, np) is rows
    assert layout.measured is None
    assert layout.structured(rows, np).shape == (2, 2, 3)


def test_only_floats_are_normalised():
    layout = ObservationSpace.of(COMPOUND)
    mask = layout.measured
    assert mask is not None
    assert mask.sum() == 6
    names = [part.where for part in layout.parts for _ in range(part.size)]
    assert {name for name, measured in zip(names, mask, strict=True) if measured} == {"['pose']"}


def test_discrete_observation_with_one_value_is_zero():
    layout = ObservationSpace.of(spaces.Discrete(1))
    np.testing.assert_array_equal(layout.encoded(layout.row(0), np), [0.0])


def test_equal_layouts_are_equal():
    assert ObservationSpace.of(COMPOUND) == ObservationSpace.of(COMPOUND)
    assert hash(ObservationSpace.of(COMPOUND)) == hash(ObservationSpace.of(COMPOUND))
    assert ObservationSpace.of(spaces.Discrete(3)) != ObservationSpace.of(spaces.Discrete(4))


@pytest.mark.parametrize(
    ("space", "is_image"),
    [
        (CAMERA, True),
        (spaces.Box(0.0, 1.0, (4, 5, 3)), True),
        (spaces.Box(0, 255, (4, 5), np.uint8), True),
        (spaces.Box(0, 255, (4, 5, 5, 3), np.uint8), True),
        (spaces.Box(0.0, 1.0, (4, 5, 5, 3)), True),
        (spaces.Box(0.0, 1.0, (4, 5)), False),
        (spaces.Box(0, 255, (4,), np.uint8), False),
    ],
    ids=str,
)
def test_perceptrons_refuse_images(space, is_image):
    layout = ObservationSpace.of(spaces.Tuple([space, spaces.Discrete(2)]))
    row = np.zeros((1, layout.size))
    if not is_image:
        assert layout.encoded(row, np).shape == (1, layout.encoded_size)
        return
    with pytest.raises(TypeError, match=r"observation space\[0\]: got an image of shape \(4, 5.*architecture='conv'"):
        layout.encoded(row, np)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"camera": 0}, "observation: got the entries camera, want a dict with camera, mode, pose"),
        (np.zeros(3), r"observation: got array\(\[0., 0., 0.\]\), want a dict with camera, mode, pose"),
        ({"camera": 0, "pose": 0, "mode": (0, 0)}, r"observation\['mode'\]: got \(0, 0\), want a tuple of 3"),
        (
            {"camera": np.zeros((4, 5, 3)), "pose": np.zeros(5), "mode": (5, [0, 0], [0, 0])},
            r"observation\['pose'\]: got shape \(5,\), want \(2, 3\)",
        ),
    ],
)
def test_observation_that_does_not_fit_the_space_is_named_by_its_part(element, message):
    with pytest.raises(ValueError, match=message):
        ObservationSpace.of(COMPOUND).row(element)


def test_batch_with_parts_of_different_size_is_refused():
    layout = ObservationSpace.of(spaces.Tuple([spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2,))]))
    with pytest.raises(ValueError, match="observation: got batch sizes 3, 2, want the same size in each part"):
        layout.batch((np.zeros(3), np.zeros((2, 2))))
    with pytest.raises(ValueError, match=r"observation\[1\]: got shape \(3,\), want \(2,\), or that with a batch axis"):
        layout.batch((0, np.zeros(3)))


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2))], ids=str)
def test_spaces_without_a_fixed_size_are_refused(space):
    with pytest.raises(TypeError, match=r"observation space\['x'\]: got .*, want a Box, .*ObservationWrapper"):
        ObservationSpace.of(spaces.Dict(x=space))
