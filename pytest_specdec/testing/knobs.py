"""What can be set on the stand-in server, how it is read from JSON, and what is said when it is wrong.

The knobs come as one JSON object in the environment variable ``FAKE_VLLM``. Its sub-objects ``specdec`` and ``baseline``
hold for the server with and without ``--speculative-config``, so that one environment serves both arms::

    FAKE_VLLM='{"tpot_ms": 10, "specdec": {"step_ratio": 1.2, "acceptance_length": 2.4}}'
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.testing.knob_values import READERS

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENT_VARIABLE = "FAKE_VLLM"
ARM_KEYS = ("specdec", "baseline")


Share = float
"""From 0 to 1."""
Signed = float
"""May be negative."""
Positive = int
"""1 or more."""


class KnobError(ValueError):
    """A knob that does not exist, or a value that it cannot take; all of them in one message, one per line."""


@dataclass(frozen=True)
class ExitAtStart:
    """The server prints ``message`` and exits instead of becoming ready."""

    code: int = 1
    message: str = ""


@dataclass(frozen=True)
class HttpFailure:
    """Every n-th generation request is answered with this status."""

    status: int = 500
    every: Positive = 1


@dataclass(frozen=True)
class CutStream:
    """Every n-th stream ends half way, without usage and without ``[DONE]``."""

    every: Positive = 1


@dataclass(frozen=True)
class Loop:
    """From position ``after`` on, an answer repeats its last ``period`` tokens and never ends by itself."""

    after: Positive = 64
    period: Positive = 4
    share: Share = 1.0
    """Of the prompts whose answer comes that far."""

    def source(self, position: int) -> int:
        """The position of the undisturbed answer whose token is given at ``position``."""
        if position < self.after:
            return position
        period = min(self.period, self.after)
        return self.after - period + (position - self.after) % period


@dataclass(frozen=True)
class Knobs:
    """Settings of one server. Times in milliseconds, shares as fractions."""

    tpot_ms: float = 5.0
    """One plain decode step of a request."""
    tpot_ms_per_running: float = 0.0
    """Added to each plain step for every other running request."""
    ttft_ms: float = 20.0
    """From admission to the first token."""
    ttft_ms_cached: float | None = None
    """TTFT of a prompt whose full blocks are all in the prefix cache; None: as ``ttft_ms``."""
    step_ratio: float = 1.0
    """Cost of a decode step of a speculating server in plain steps."""
    schedule_ratio: float = 1.0
    """Cost of a decode step where K depends on the batch size, in steps of a fixed K; the K that is drafted stays the largest."""
    acceptance: Share | tuple[Share, ...] | None = None
    """Conditional acceptance per draft position (a number holds for all); None: 0.7, or as ``acceptance_length`` says."""
    acceptance_length: float | None = None
    """Mean acceptance length, bonus token included; used instead of ``acceptance``."""
    draft_coverage: Share = 1.0
    """Share of decode steps that draft at all."""
    jitter: float = 0.0
    """Lognormal sigma of every step and every first token; the mean stays as set."""
    request_jitter: float = 0.0
    """Lognormal sigma of the pace of a whole request, drawn anew each time."""
    prompt_spread: float = 0.0
    """Lognormal sigma of the pace of a prompt, the same whenever and on whichever server it runs."""
    drift: Signed = 0.0
    """Growth of every time per minute since the server started (0.1 = 10 % slower after a minute)."""
    seed: int = 0
    """Of acceptance and noise."""
    answer_tokens: tuple[int, ...] = (24, 160)
    """Shortest and longest natural answer, end token included."""
    version: str = "0.26.0"
    """As ``GET /version`` tells it; 0.29 and later know ``--per-request-spec-decode-metrics``."""
    num_speculative_tokens: Positive | None = None
    """K that the server really uses; None: as the config says, else 3."""
    kv_cache_tokens: int = 123_456
    """KV capacity in the start-up log."""
    engines: Positive = 1
    """Data-parallel engines: requests and counters are spread over them."""
    log_lines: tuple[str, ...] = ()
    """Printed in the log during start-up."""
    startup_s: float = 0.0
    """Time until ready, with a log line now and then."""
    silent_start: bool = False
    """No log line before ready."""
    exit_at_start: ExitAtStart | None = None
    hang_at_start: bool = False
    """Never becomes ready, and prints nothing more."""
    die_after_requests: int | None = None
    """The process exits in the middle of the next answer after so many requests."""
    hang_after_requests: int | None = None
    """Answers after so many requests never begin."""
    http_error: HttpFailure | None = None
    cut_stream: CutStream | None = None
    buffered: bool = False
    """Chunks are held back and sent together at the end, as a buffering proxy does."""
    stamped: bool = False
    """An SSE comment before each chunk says when it was due, in milliseconds since the request was admitted: ``: due 41.5 ms``."""
    merged_chunks: Positive = 1
    """Decode steps bundled in one chunk."""
    foreign_traffic: float = 0.0
    """Requests per second that somebody else sends: they only show in the counters."""
    reset_counters_after: Positive | None = None
    """Counters start again from zero after so many requests, as after a restart."""
    inconsistent_counters: bool = False
    """More tokens accepted than drafted."""
    disable_log_stats: bool = False
    """``/metrics`` without any ``vllm:`` line."""
    no_drafts: bool = False
    """The server was started with speculation and never drafts."""
    wrong_method: str | None = None
    """Method in the start-up log, instead of the configured one."""
    speculates_on_baseline: bool = False
    """Speculation without ``--speculative-config``."""
    corrupt_output: Share = 0.0
    """Share of prompts whose answer takes another, clearly less likely token (a hard divergence)."""
    near_ties: Share = 0.0
    """Share of prompts whose answer takes the other of two equally likely tokens (numerics, not corruption)."""
    numeric_noise: Share = 0.0
    """Share of answers that take it by chance, other ones in each pass, as with another composition of the batch."""
    swap_at_drafts: Share = 0.0
    """Share of prompts in whose answer the tokens on both sides of a draft's border are swapped (needs speculation)."""
    broken_form: Share = 0.0
    """Share of prompts whose answer, where JSON or a call of a tool is asked for, lacks its last bracket."""
    loop: Loop | None = None
    sampler_bias: Signed = 0.0
    """Added to the most likely token's probability at a temperature above 0 (0.05: 5 percentage points)."""
    corrupt_only_concurrent: bool = False
    """``corrupt_output``, ``swap_at_drafts``, ``loop`` and ``sampler_bias`` only beside another running request."""
    corrupt_only_with: str | None = None
    """The same four only for prompts that contain this text."""
    sleep_s: float = 0.0
    """Time that falling asleep takes, with ``--enable-sleep-mode``."""
    wake_s: float = 0.0
    """Time that waking up takes."""
    hang_at_sleep: bool = False
    """``POST /sleep`` is never answered, and the server stays awake."""
    hang_at_wake: bool = False
    """``POST /wake_up`` is never answered, and the server stays asleep."""
    journal: str | None = None
    """File to which every start, sleep, wake-up and generation request is appended, a line each: ``baseline 123 sleep``."""
    spawn_child: bool = False
    """Start a child process that ignores SIGTERM, as a vLLM engine core may."""
    ignore_sigterm: bool = False
    """The server itself ignores SIGTERM."""


def read_knobs(data: Mapping[str, Any], *, speculating: bool) -> Knobs:
    """Check an object of knobs and return those that hold for one arm.

    Raises:
        KnobError: With every wrong name and value, of the other arm too.
    """
    problems: list[str] = []
    shared = {name: value for name, value in data.items() if name not in ARM_KEYS}
    arms: dict[str, dict[str, Any]] = {}
    values = _read(Knobs, shared, "", problems, ARM_KEYS)
    for key in ARM_KEYS:
        arm = data.get(key, {})
        if isinstance(arm, dict):
            arms[key] = _read(Knobs, arm, f"{key}.", problems, ())
        else:
            problems.append(f"{key} must be an object of knobs, not {arm!r}")
    if problems:
        raise KnobError("\n".join(problems))
    return Knobs(**{**values, **arms["specdec" if speculating else "baseline"]})


def knobs_from_environment(text: str | None, *, speculating: bool) -> Knobs:
    """Read the text of the environment variable; without it, all knobs have their defaults.

    Raises:
        KnobError: The text is no JSON object, or has wrong knobs.
    """
    return read_knobs(knob_data(text), speculating=speculating)


def knob_data(text: str | None) -> dict[str, Any]:
    """Parse the text of the environment variable into an object, unchecked."""
    if not text:
        return {}
    try:
        data = json.loads(text)
    except ValueError as error:
        raise KnobError(f"{ENVIRONMENT_VARIABLE} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise KnobError(f"{ENVIRONMENT_VARIABLE} must be a JSON object, not {text}")
    return data


def _read(
    kind: type, data: Mapping[str, Any], prefix: str, problems: list[str], more: tuple[str, ...]
) -> dict[str, Any]:
    fields = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in fields:
            near = difflib.get_close_matches(name, [*fields, *more], n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            problems.append(f"unknown knob {prefix}{name}{hint}")
            continue
        try:
            values[name] = _value(fields[name], value, f"{prefix}{name}.", problems)
        except (TypeError, ValueError) as error:
            problems.append(f"{prefix}{name} {error}, not {value!r}")
    return values


def _value(type_name: str, value: Any, prefix: str, problems: list[str]) -> Any:
    if value is None and type_name.endswith("| None"):
        return None
    base = type_name.removesuffix(" | None")
    if base in _NESTED:
        if not isinstance(value, dict):
            raise TypeError("must be an object")
        return _NESTED[base](**_read(_NESTED[base], value, prefix, problems, ()))
    return READERS[base](value)


_NESTED: dict[str, type] = {
    "ExitAtStart": ExitAtStart,
    "HttpFailure": HttpFailure,
    "CutStream": CutStream,
    "Loop": Loop,
}
