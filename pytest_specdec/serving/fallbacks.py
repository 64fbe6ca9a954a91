"""What vLLM changed by itself while a server started, in sentences: nothing of it makes a start fail, all of it may move figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.serving.attestation import attested
from pytest_specdec.serving.log_facts import stated_speculation
from pytest_specdec.serving.log_tables import fallbacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LINE_AT_MOST = 4_000
_MODEL_LENGTH = re.compile(r"Using max model len (?P<tokens>\d{1,12})")


def changed_by_vllm(lines: Sequence[str]) -> tuple[str, ...]:
    """One sentence for each change, in the order of the log.

    Args:
        lines: The log of one launch until the server was ready, without colours.
    """
    found = [*_other_method(lines), *_short_draft(lines)]
    for line in (line[:_LINE_AT_MOST] for line in lines):
        for entry in fallbacks():
            match = next((match for pattern in entry.patterns if (match := pattern.search(line))), None)
            if match is not None:
                found.append(masked_text(entry.sentence.format_map(match.groupdict())))
    return tuple(dict.fromkeys(found))


def _other_method(lines: Sequence[str]) -> Iterator[str]:
    """MTP served as draft_model, a draft_model taken for eagle3 because of its path, ..."""
    stated = stated_speculation(lines).get("method")
    in_force = attested("\n".join(lines))
    # The names of single MTP families are aliases.
    alias = isinstance(stated, str) and stated.endswith("_mtp") and in_force is not None and in_force.method == "mtp"
    if stated and in_force is not None and in_force.method not in (None, stated) and not alias:
        yield f"speculation runs as {in_force.method}, where the config says {stated}"


def _short_draft(lines: Sequence[str]) -> Iterator[str]:
    """The length of the target is printed first, then the draft's; beyond the draft's nothing is drafted."""
    if not stated_speculation(lines).get("model"):
        return
    lengths = [int(match["tokens"]) for line in lines if (match := _MODEL_LENGTH.search(line[:_LINE_AT_MOST]))]
    if len(lengths) > 1 and lengths[1] < lengths[0]:
        yield f"drafting ends at position {lengths[1]}: the draft's max_model_len is shorter than the target's {lengths[0]}"
