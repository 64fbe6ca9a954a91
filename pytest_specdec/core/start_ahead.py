"""Which servers start together: those of later configs beside the first ones, as far as the devices have room for all."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pytest_specdec.core.placement import FULL_SHARE, LEAST_KV_GIB, RESERVE_GIB, TOGETHER_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GIB = 1024**3
_MARGIN = 0.06
"""Of a device, for what a server with many sequences and long prompts needs beside weights and KV cache: activations, logits, graphs."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def gib_of(size: str) -> float | None:
    """GiB of a number of bytes as vLLM's command line reads it: ``25.5g`` is decimal, ``24G`` binary; None if it is none."""
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        return None
    number, suffix = found.groups()
    base = 1024.0 if suffix.isupper() else 1000.0
    return float(number) * math.pow(base, _POWER[suffix.lower()]) / _GIB


def need_gib(weights_gib: float, kv_gib: float) -> float:
    """GiB of one device that a server takes: its share of the weights, its KV cache, and what it needs beside them."""
    return weights_gib + kv_gib + RESERVE_GIB


def kv_gib(weights_gib: float, device_gib: float) -> float | None:
    """GiB of KV cache for one of two servers on a device, so that neither has to measure what the other one leaves.

    vLLM's own figure for the same share is somewhat larger: it measures what is kept back here. None where too little would be left.
    """
    size = TOGETHER_SHARE * device_gib - weights_gib - max(RESERVE_GIB, _MARGIN * device_gib)
    return size if size >= LEAST_KV_GIB else None


def chosen(first: Mapping[str, float], later: Sequence[Mapping[str, float]], device_gib: float) -> set[str]:
    """The servers that start together.

    Args:
        first: GiB of each server that starts in any case.
        later: GiB of each server, per config, in the order in which the configs are needed; a server may be in several.
        device_gib: Memory of the smallest device that all of them share.
    """
    sizes = {**first}
    for servers in later:
        with_these = {**sizes, **servers}
        if sum(with_these.values()) <= FULL_SHARE * device_gib:
            sizes = with_these
    return set(sizes)
