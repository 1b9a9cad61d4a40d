"""Muon: orthogonal updates, constant norms, SGD for the rest, and a state that is saved."""

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.networks import MLP, build_network
from softmatch.training.checkpoint import flatten_optimizer, unflatten_optimizer
from softmatch.training.muon import Muon, orthogonalise
from softmatch.training.schedule import make_optimizer


@pytest.mark.parametrize("shape", [(8, 72), (72, 8), (16, 16)])
def test_singular_values_become_about_equal(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape) @ torch.diag(torch.logspace(0, -1, shape[1]))
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalise(matrix)
    values = torch.linalg.svdvals(found)
    assert float(values.min()) > 0.6, s
    assert float(values.max()) < 1.3
    assert float((found * (u @ v)).sum() / (found.norm() * (u @ v).norm())) > 0.97, "the same directions"


def test_one_step_of_each_kind() -> None:
    weight, bias = nn.Parameter(torch.randn(4, 3, 3, 3)), nn.Parameter(torch.randn(5))
    before = weight.detach().clone(), bias.detach().clone()
    optimizer = Muon([{"params": [weight]}, {"params": [bias], "orthogonal": False, "momentum": 0.9, "weight_decay": 0.1}], 0.2)
    gradients = torch.randn(4, 3, 3, 3), torch.randn(5)
    for _ in range(2):
        weight.grad, bias.grad = gradients[0].clone(), gradients[1].clone()
        optimizer.step()
    expected, average = before[0], torch.zeros(4, 27)
    for _ in range(2):
        average = 0.6 * average + gradients[0].flatten(1)
        update = orthogonalise(gradients[0].flatten(1) + 0.6 * average)
        expected = 2.0 * expected / expected.norm() - 0.2 * update.reshape(4, 3, 3, 3)
    assert torch.allclose(weight, expected, atol=1e-5)
    reference = nn.Parameter(before[1])
    sgd = torch.optim.SGD([reference], lr=0.2, momentum=0.9, nesterov=True, weight_decay=0.1)
    for _ in range(2):
        reference.grad = gradients[1].clone()
        sgd.step()
    assert torch.allclose(bias, reference, atol=1e-6)


def test_convolutions_are_orthogonalised_and_the_rest_is_not() -> None:
    network = build_network("shallow-4", (3, 32, 32), 10)
    optimizer = make_optimizer(network, "muon", 0.1, 5e-4)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    kinds = {names[id(p)]: group["orthogonal"] for group in optimizer.param_groups for p in group["params"]}
    trained = {name for name, p in network.named_parameters() if p.requires_grad}
    assert kinds.keys() == trained
    assert {name for name in kinds if kinds[name]} == {name for name in trained if network.get_parameter(name).ndim == 4}


def test_a_network_without_convolutions_is_refused() -> None:
    with pytest.raises(InputError, match="convolutions"):
        make_optimizer(MLP(4, 2), "muon", 0.1, 0.0)


def test_state_is_saved_and_loaded() -> None:
    networks = [build_network("shallow-4", (1, 8, 8), 3) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    optimizers = [make_optimizer(network, "muon", 0.1, 5e-4) for network in networks]
    images = torch.randn(3, 8, 1, 8, 8)

    def advance(number: int, step: int) -> None:
        networks[number](images[step]).square().sum().backward()
        optimizers[number].step()
        optimizers[number].zero_grad()

    advance(0, 0)
    networks[1].load_state_dict(networks[0].state_dict())
    saved = {name: tensor.clone() for name, tensor in flatten_optimizer(optimizers[0]).items()}
    unflatten_optimizer(optimizers[1], saved)
    for number in range(2):
        advance(number, 1)
    for one, two in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("shape", [(8, 72), (72, 8), (16, 16)])
def test_the_iteration_on_the_gram_matrix_is_that_on_the_matrix(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape)
    x = matrix / matrix.norm()
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    assert torch.allclose(orthogonalise(matrix), x, atol=1e-4)
