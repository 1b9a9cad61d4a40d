"""What the settings say about training a pretrained encoder; refused where there is none."""

from __future__ import annotations

from torch import nn

from softmatch.config import Config
from softmatch.encoders.layers import depths
from softmatch.errors import InputError
from softmatch.networks import Network, Tuning, describe_network, is_encoder

__all__ = ["length_buckets", "refuse_misfit", "refuse_without_layers", "tuning_of"]

ENCODER_ONLY = ("layer_decay", "head_rate", "tuned_layers", "lora", "head")
"""Settings that are about a pretrained encoder that is trained."""
BUCKETS = 50


def tuning_of(config: Config) -> Tuning:
    """What of an encoder is trained, and its head."""
    return Tuning(config.head, config.tuned_layers, config.lora)


def length_buckets(config: Config, kind: str) -> int | None:
    """Batches among which texts are sorted by length; 1: none are sorted. None for items of another kind."""
    if kind != "text":
        return None
    return BUCKETS if config.length_buckets is None else config.length_buckets


def refuse_misfit(config: Config, network: Network, kind: str) -> None:
    """Raise InputError for settings about an encoder that is trained where there is none.

    Args:
        kind: of the items.
    """
    missing = "give --fine-tune" if config.encoder is not None else "give --encoder and --fine-tune"
    for key in ENCODER_ONLY:
        if getattr(config, key) != Config.model_fields[key].default and not is_encoder(network):
            raise InputError(
                f"--{key.replace('_', '-')} is for a pretrained encoder that is trained, and the network here is "
                f"{describe_network(network)!r}: {missing}, or leave it out."
            )
    if config.length_buckets is not None and kind != "text":
        raise InputError(
            "--length-buckets is for texts and a pretrained encoder that is trained: "
            f"{'' if config.fine_tune else f'{missing}, or '}leave it out."
        )


def refuse_without_layers(config: Config, network: nn.Module) -> None:
    """Raise InputError for a decay from layer to layer of an encoder that has none."""
    if config.layer_decay != 1.0 and not any(depths(network).values()):
        raise InputError("--layer-decay: no layers were found in this encoder. Leave it out.")
