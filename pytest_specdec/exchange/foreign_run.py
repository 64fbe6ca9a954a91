"""One run of another load generator, in our terms: seconds, fractions, joint acceptance per position."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.samples import RequestSample, RequestSpecStats, ServerCounters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

Fact = Literal["acceptance", "positions", "chunk times", "load"]
"""What an objective can need beyond the first and last token time and the token count of every request."""


@dataclass(frozen=True)
class ForeignRun:
    """What a file tells about one run of one arm."""

    tool: str
    """``vllm bench serve``, ``GuideLLM`` or ``AIPerf``."""
    where: str
    """File, and line where it holds several runs."""
    model: str
    samples: tuple[RequestSample, ...]
    """``index`` and ``prompt`` are the place among them, and the same request in both arms where the load generator had the same seed."""
    counters: ServerCounters
    """Of speculation only; all None where the file does not tell."""
    missing: Mapping[Fact, str]
    """What the file does not tell, and what would make the tool write it."""
    counts_drafts: bool
    """Whether the tool asks the server for its counters, so that none means no speculation."""
    concurrency: int | None
    """None where requests came at a rate of their own, or where the load is not told."""
    request_rate: float | None
    started_unix_s: float
    """0 where the file does not say."""
    duration_s: float


def sample(
    index: int,
    *,
    sent_s: float,
    token_times_s: tuple[float, ...],
    prompt_tokens: int | None,
    completion_tokens: int,
    spec: RequestSpecStats | None = None,
) -> RequestSample:
    """A request that completed."""
    return RequestSample(
        index=index,
        prompt=index,
        category=None,
        due_s=None,
        sent_s=sent_s,
        token_times_s=token_times_s,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        spec=spec,
    )


def failed_sample(index: int, *, sent_s: float, error: str) -> RequestSample:
    """A request that did not."""
    error = error.strip()
    why = error.splitlines()[-1] if error else "the file gives no reason"
    return RequestSample(index=index, prompt=index, category=None, due_s=None, sent_s=sent_s, error=why)


def checked(model: type[Model], data: Any, where: str) -> Model:
    """The data as the file format has it.

    Raises:
        ResultFileError: It has not that form; the message names the place.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ResultFileError(
            f"{place}: {first['msg']}", where=where, remedy="Is the file whole and unedited?"
        ) from None
