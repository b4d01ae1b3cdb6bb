"""credit on PyTorch tensors: the same numbers, the same library, gradients through it."""

import numpy as np
import pytest

import factorax as fx

torch = pytest.importorskip("torch", reason="PyTorch is no dependency of factorax")
pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
NETWORKS = {
    "ones": fx.InfluenceNetwork.complete(3, 5),
    "identity": fx.InfluenceNetwork.identity(4),
    "permutation": fx.InfluenceNetwork(np.eye(4)[[2, 0, 3, 1]]),
    "search bandit": fx.structure.gallery.search_bandit(6, 4),
    "all but one": fx.InfluenceNetwork(1 - np.eye(500)),
    "equal rows": fx.patterns.block([(4, 3), (6, 5)]),
    "windows": fx.patterns.banded(400, 80),
    "sparse": fx.patterns.banded(300, 2),
    "sparse, uneven": fx.InfluenceNetwork(np.eye(300) + (np.arange(300) == np.arange(300)[:, None] // 2) > 0),
    "dense, soft": fx.InfluenceNetwork(RNG.random((7, 6))),
}


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("net", NETWORKS.values(), ids=NETWORKS.keys())
def test_numpy_and_torch_agree_to_rounding(net, batch):
    psi, lam = RNG.normal(size=(*batch, net.shape[1])), RNG.normal(size=net.shape[1])
    for weights in (None, lam, torch.from_numpy(lam)):
        got = fx.credit(net, torch.from_numpy(psi), weights)
        assert isinstance(got, torch.Tensor)
        assert got.dtype == torch.float64
        want = fx.credit(net, psi, None if weights is None else lam)
        np.testing.assert_allclose(got.numpy(), want, atol=1e-11)
    single = fx.factor_baseline(net, torch.from_numpy(psi.astype(np.float32)))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), fx.factor_baseline(net, psi), atol=1e-3)


@pytest.mark.parametrize("net", NETWORKS.values(), ids=NETWORKS.keys())
def test_gradient_of_credit_is_the_transposed_network(net):
    psi = torch.ones(net.shape[1], dtype=torch.float64, requires_grad=True)
    w = torch.from_numpy(RNG.normal(size=net.shape[0]))
    (fx.credit(net, psi) @ w).backward()
    np.testing.assert_allclose(psi.grad.numpy(), w.numpy() @ net.to_dense(), atol=1e-11)


def test_schedule_and_partition_map_accept_tensors():
    schedule = fx.NetworkSchedule(fx.InfluenceNetwork.identity(3), fx.InfluenceNetwork.complete(3, 3), steps=10)
    psi = torch.tensor([1.0, 2.0, 4.0])
    np.testing.assert_allclose(fx.credit(schedule.at(5), psi).numpy(), [4.0, 4.5, 5.5])
    sigma = fx.structure.PartitionMap([0, 2], 3)
    assert torch.equal(sigma.merge(sigma(psi), sigma.complement(psi)), psi)


def test_evaluation_under_inference_mode_does_not_spoil_training():
    net = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    with torch.inference_mode():
        fx.credit(net, torch.ones(3))
    psi = torch.ones(3, requires_grad=True)
    fx.credit(net, psi).sum().backward()
    np.testing.assert_allclose(psi.grad.numpy(), [2.0, 2.0, 2.0])


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")  # array-api-compat's
@pytest.mark.parametrize("net", NETWORKS.values(), ids=NETWORKS.keys())
def test_credit_under_torch_compile(net):
    psi = torch.from_numpy(RNG.normal(size=net.shape[1]))
    fresh = fx.InfluenceNetwork(net.matrix)
    compiled = torch.compile(lambda x: fx.credit(fresh, x), backend="eager")
    np.testing.assert_allclose(compiled(psi).numpy(), fx.credit(net, psi).numpy(), atol=1e-12)


def test_the_dtype_is_that_of_the_targets():
    net = fx.InfluenceNetwork.identity(2)
    assert fx.credit(net, torch.ones(2), torch.ones(2, dtype=torch.float64)).dtype == torch.float32


def test_targets_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match=r"psi: got shape \(2,\), want \(\.\.\., 3\)"):
        fx.credit(fx.InfluenceNetwork.identity(3), torch.ones(2))
