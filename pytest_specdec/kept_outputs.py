"""Prompts and answers that differ, for people who asked to keep them: texts for the failure, and requests that can be run again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_specdec.reporting.kept_file import KEPT_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.output_pairs import ComparedAnswers
    from pytest_specdec.core.outputs import Outputs
    from pytest_specdec.measuring import Measurement
    from pytest_specdec.output_pass import OutputCheck

QUOTED_TOKENS = 12
"""So many tokens from the first difference on are quoted."""


def keep_outputs(measurement: Measurement, pairs: Sequence[ComparedAnswers], check: OutputCheck) -> Outputs:
    """Fill the measurement's list of kept answers, one per distinct difference, and return its outputs with quotes."""
    assert measurement.outputs is not None  # noqa: S101 - compared before
    differing = {_key(one): one for one in pairs if not one.pair.equal}
    parts = [_parts(one) for one in differing.values()]
    texts = check.texts([part for both in parts for part in both])
    quotes: dict[Any, tuple[str, str]] = {}
    kept = measurement.output_memory.kept
    kept.clear()
    for number, (key, one) in enumerate(differing.items()):
        quotes[key] = (texts[2 * number] or "", texts[2 * number + 1] or "")
        kept.append(_entry(one, quotes[key], check, measurement))
    return replace(
        measurement.outputs,
        pairs=tuple(replace(one.pair, texts=quotes.get(_key(one))) for one in pairs),
        kept=KEPT_FILE,
    )


def _key(one: ComparedAnswers) -> tuple[Any, ...]:
    return (one.pair.compared, one.pair.prompt, one.pair.digests)


def _parts(one: ComparedAnswers) -> tuple[tuple[int, ...], tuple[int, ...]]:
    start = one.pair.first_difference or 0
    first, second = (sample.token_ids or () for sample in (one.first, one.second))
    return first[start : start + QUOTED_TOKENS], second[start : start + QUOTED_TOKENS]


def _entry(
    one: ComparedAnswers, texts: tuple[str, str], check: OutputCheck, measurement: Measurement
) -> dict[str, Any]:
    """What is written about one difference; the request is the one that was sent."""
    from pytest_specdec.load.client import prepare

    prepared = prepare(check.request_of(one), measurement.load, measurement.config.model)
    body = json.loads(prepared.body) | {"stream": False}
    del body["stream_options"]
    data = shlex.quote(json.dumps(body))
    return {
        "compared": one.pair.compared,
        "condition": one.pair.condition,
        "prompt": one.pair.prompt,
        "first_difference": one.pair.first_difference,
        "gaps_nats": one.pair.gaps_nats,
        "answers": [list(sample.token_ids or ()) for sample in (one.first, one.second)],
        "from_the_difference_on": list(texts),
        "path": prepared.path,
        "body": body,
        "curl": f'curl -s "$URL{prepared.path}" -H "Content-Type: application/json" -d {data}',
    }
