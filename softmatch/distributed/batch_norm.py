"""Batch normalisation with the statistics of all processes, each of which has a share of the batch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from softmatch.distributed.processes import world
from softmatch.errors import InputError


def synchronise(network: nn.Module) -> nn.Module:
    """Make every batch normalisation of a network use the statistics of all processes. Move it to its device first.

    Uses torch's own layer on CUDA and the one below elsewhere. State dicts keep their names. With one process nothing changes.
    The network is changed in place if possible; use the returned one.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    if world().size == 1 or not norms:
        return network
    for norm in norms:
        if type(norm).forward is not _BatchNorm.forward and not isinstance(norm, nn.SyncBatchNorm | SynchronisedBatchNorm):
            raise InputError(
                f"the network has a {type(norm).__qualname__}, a batch normalisation with a forward pass of its own: it "
                "cannot use the statistics of several processes. Train in one process, or use --batch-statistics separate with "
                "--micro-batch, so that each pass has its own statistics."
            )
    if any(tensor.is_cuda for tensor in network.state_dict().values()):
        return nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-any-return, no-untyped-call]  # untyped in torch
    for norm in norms:  # in place, so that parameters, hooks and references stay valid
        norm.__class__ = SynchronisedBatchNorm
    return network


class SynchronisedBatchNorm(_BatchNorm):
    """y = γ·(x − μ)/√(σ² + ε) + β, with μ and σ² over all processes, which may have different numbers of rows.

    Everything else is as in torch: running statistics use σ² of N − 1, and evaluation mode normalises with them.
    """

    synchronised = True

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or world().size == 1:
            return super().forward(input)
        mean, variance, count = _statistics(input)
        if self.track_running_stats and self.running_mean is not None and self.running_var is not None:
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
            self.running_var.lerp_((variance * (count / (count - 1.0))).to(self.running_var.dtype), share)
        weight = torch.ones_like(mean) if self.weight is None else self.weight
        bias = torch.zeros_like(mean) if self.bias is None else self.bias
        out: Tensor = _Normalise.apply(input, weight, bias, mean, variance, count, self.eps)  # type: ignore[no-untyped-call]  # torch's own signature
        return out

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"batch normalisation needs inputs (B, C, …), not {tuple(input.shape)}")


@torch.no_grad()
def _statistics(value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel over all processes, and its number of values, on the device: the host never waits."""
    full = value.to(torch.promote_types(value.dtype, torch.float32))
    dims = [dim for dim in range(full.dim()) if dim != 1]
    rough = full.mean(dims, keepdim=True)  # `torch.var_mean` takes twenty times as long on a CPU
    away = full - rough
    rest = away.mean(dims)
    mean, variance = rough.flatten() + rest, away.square_().mean(dims) - rest.square()
    count = torch.full_like(mean[:1], value.numel() / value.shape[1], dtype=torch.float64)
    own = torch.cat([mean, variance, count])  # in float64
    found = [torch.empty_like(own) for _ in range(world().size)]
    dist.all_gather(found, own)
    means, variances, counts = torch.split(torch.stack(found), [len(mean), len(mean), 1], dim=1)
    total = counts.sum()
    whole = (counts * means).sum(0) / total
    spread = (counts * (variances + (means - whole).square())).sum(0) / total
    return whole.to(mean.dtype), spread.to(mean.dtype), total.to(mean.dtype)


class _Normalise(torch.autograd.Function):
    """Normalisation with given statistics, and its derivative for statistics of the inputs of all processes."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, count: Tensor, eps: float
    ) -> Tensor:
        ctx.save_for_backward(value, weight, mean, variance, count)
        ctx.eps = eps
        return F.batch_norm(value, mean, variance, weight, bias, training=False, eps=eps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        value, weight, mean, variance, count = ctx.saved_tensors
        # As if the statistics were constants …
        to_value, to_weight, to_bias = torch.ops.aten.native_batch_norm_backward(
            gradients[0], value, weight, mean, variance, None, None, False, ctx.eps, [True, True, True]
        )
        if ctx.needs_input_grad[0]:
            # … less what flows through them: γ/σ·(mean g + x̂·mean(g·x̂)), the means over all processes.
            means = torch.stack([to_bias, to_weight]).float()
            dist.all_reduce(means)
            means /= count
            deviation = torch.rsqrt(variance + ctx.eps)
            slope = weight * deviation * deviation * means[1]
            shift = weight * deviation * means[0] - slope * mean
            shape = [1, -1, *[1] * (value.dim() - 2)]
            to_value = to_value - (value * slope.view(shape) + shift.view(shape)).to(to_value.dtype)
        return to_value, to_weight, to_bias, None, None, None, None
