"""Rotary embedding in plain torch, under the name and the arguments that SGLang expects of vLLM's compiled kernel."""

import torch


def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox=True):
    """Turns query and key in place by the angles of their positions."""
    angles = cos_sin_cache[positions.reshape(-1)].unsqueeze(1)
    cos, sin = angles.chunk(2, dim=-1)
    for states in (query, key):
        if states is not None:
            heads = states.view(states.shape[0], -1, head_size)
            turned = heads[..., : 2 * cos.shape[-1]]
            turned.copy_(_turn(turned.float(), cos, sin, is_neox))


def _turn(states, cos, sin, is_neox):
    if is_neox:
        first, second = states.chunk(2, dim=-1)
    else:
        first, second = states[..., ::2], states[..., 1::2]
    halves = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat(halves, dim=-1) if is_neox else torch.stack(halves, dim=-1).flatten(-2)
