"""The tables of methods: who drafts, how drafts are verified, how they are sampled, and which releases know each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TakesK = Literal["stated", "own", "draft"]


@dataclass(frozen=True)
class Named:
    """A name that a release knows or does not know."""

    name: str
    since: str | None = None
    gone: str | None = None
    instead: str = ""


@dataclass(frozen=True)
class SpecMethod(Named):
    """A way to draft."""

    takes_k: TakesK = "draft"
    """Where K comes from when it is left out: it must be ``stated``, is the method's ``own``, or may stand in the ``draft``."""
    model: Literal["draft", "target", "code", "none"] = "draft"
    """What ``model`` is; ``target``: the target's own weights where it is left out."""


_GONE = "Name another method; 0.33.0 has none that reads such weights."

METHODS: dict[str, SpecMethod] = {
    method.name: method
    for method in (
        SpecMethod("ngram", takes_k="stated", model="none"),
        SpecMethod("ngram_gpu", "0.18.0", takes_k="stated", model="none", instead="Use ngram."),
        SpecMethod("suffix", "0.12.0", takes_k="own", model="none", instead="Use ngram."),
        SpecMethod("draft_model", "0.16.0"),
        SpecMethod("eagle"),
        SpecMethod("eagle3"),
        SpecMethod("mtp", "0.11.0", model="target"),
        SpecMethod("dflash", "0.20.0"),
        SpecMethod("dspark", "0.25.0", model="target"),
        SpecMethod("extract_hidden_states", "0.17.0", takes_k="stated", model="none"),
        SpecMethod("custom_class", "0.22.0", takes_k="stated", model="code"),
        SpecMethod("medusa", gone="0.33.0", instead=_GONE),
        SpecMethod("mlp_speculator", gone="0.33.0", instead=_GONE),
    )
}

MTP_ALIASES: dict[str, Named] = {
    name: Named(name, since, instead="Write mtp: it is the name of all of them since 0.11.0.")
    for since, names in {
        None: "deepseek_mtp ernie_mtp glm4_moe_mtp longcat_flash_mtp mimo_mtp pangu_ultra_moe_mtp qwen3_next_mtp",
        "0.16.0": "exaone_moe_mtp glm4_moe_lite_mtp glm_ocr_mtp step3p5_mtp",
        "0.17.0": "nemotron_h_mtp qwen3_5_mtp",
        "0.20.0": "exaone4_5_mtp hy_v3_mtp",
        "0.21.0": "gemma4_mtp mimo_v2_mtp",
        "0.24.0": "minimax_m3_mtp",
        "0.25.0": "bailing_hybrid_mtp",
        "0.26.0": "inkling_mtp",
        "0.27.0": "kimi_k3_mtp",
        "0.28.0": "bailing_hybrid_v3_mtp dots3_note_mtp",
        "0.29.0": "hy_v4_mtp qwen4_exp_mtp",
        "0.30.0": "glm5_next_mtp",
        "0.33.0": "step5_mtp",
    }.items()
    for name in names.split()
}
"""Deprecated names of ``mtp``, one for each family of models."""

OTHER_NAMES = {
    "[ngram]": "ngram",
    "prompt_lookup": "ngram",
    "prompt_lookup_decoding": "ngram",
    "draft": "draft_model",
    "eagle1": "eagle",
    "eagle_3": "eagle3",
    "peagle": "eagle3",
    "p_eagle": "eagle3",
    "dflash2": "dflash",
    "suffix_decoding": "suffix",
    "hidden_states": "extract_hidden_states",
}
"""What people call a method, beside vLLM's name of it."""

CHOICES: dict[str, dict[str, Named]] = {
    "rejection_sample_method": {
        name.name: name
        for name in (
            Named(
                "strict", "0.18.0", "0.21.0", 'Since 0.22.0: "standard", which every release after that one has, too.'
            ),
            Named(
                "probabilistic",
                "0.18.0",
                "0.21.0",
                'Since 0.22.0: "standard", with "draft_sample_method": "probabilistic" for drafts that are sampled.',
            ),
            Named("synthetic", "0.19.0"),
            Named("standard", "0.21.0", instead='Before that: "strict".'),
            Named("block", "0.25.0", instead='Before that: "standard".'),
            Named("fly", "0.33.0", instead='Before that: "standard"; "fly" is lossy.'),
        )
    },
    "draft_sample_method": {
        name.name: name
        for name in (
            Named("greedy", "0.21.0"),
            Named("gumbel", "0.21.0", "0.22.0", 'Since 0.22.0: "probabilistic".'),
            Named("probabilistic", "0.22.0"),
        )
    },
    "draft_lm_head_quantization": {name: Named(name, "0.33.0") for name in ("fp8", "nvfp4")},
}
"""Keys whose value is one of a few names."""

LOSSY = frozenset({"fly"})
"""Verifications that may change what the target would have said."""

SPECULATORS: dict[str, tuple[str, str | None]] = {
    "eagle3": ("eagle3", None),
    "eagle": ("eagle", None),
    "peagle": ("eagle3", "0.22.0"),
    "dflash": ("dflash", "0.20.0"),
    "dflash2": ("dflash", "0.29.0"),
    "dspark": ("dspark", "0.25.0"),
}
"""``speculators_model_type`` of a checkpoint in that format: its method, and the first release that reads it."""


def plain_method(method: object) -> str | None:
    """The method by its name of today; None where none is stated."""
    if not isinstance(method, str):
        return None
    return "mtp" if method.endswith("_mtp") else method
