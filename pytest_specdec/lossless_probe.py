"""One prompt to both servers: is the speculating server's greedy answer the target's own, up to numerics?"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.output_pairs import first_difference
from pytest_specdec.core.outputs import MIN_TIE_MARGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.client import Endpoint
    from pytest_specdec.serving.process import Server

_SHOWN = 200
_TRIES = 2
"""A divergence counts when it repeats."""


class LosslessViolation(AssertionError):  # noqa: N818 - the name of what happened, as SloViolation
    """The answers differ by more than numerics explain."""


@dataclass(frozen=True)
class _Found:
    position: int
    tokens: tuple[int | None, int | None]
    margin_nats: float | None
    """None where one answer stops short."""


@dataclass(frozen=True)
class LosslessProbe:
    """What the fixture ``assert_lossless`` hands to a test.

    Args:
        baseline: The server without speculation; it is asked how likely tokens are.
        specdec: The server with speculation.
        alive: Raises when one of them is gone.
    """

    baseline: Endpoint
    specdec: Endpoint
    alive: Callable[[], None]

    def __call__(
        self,
        prompt: str | Sequence[Mapping[str, Any]],
        max_tokens: int = 32,
        *,
        concurrency: int = 1,
        tie_margin: float = MIN_TIE_MARGIN,
    ) -> None:
        """Send a prompt to both servers and compare the tokens of their greedy answers.

        Args:
            prompt: A text for ``/v1/completions``, or messages for ``/v1/chat/completions``.
            max_tokens: Of each answer.
            concurrency: So many copies at once; each copy's answer is compared.
            tie_margin: In nats. Where the answers part, both tokens must be that close to the one that the baseline finds most
                likely; then rounding may choose either.

        Raises:
            LosslessViolation: They differ by more, and did so again when asked again; or one server alone refuses the prompt.
            CannotMeasure: A server is gone, or does not tell tokens or their likelihood.
        """
        request = _request(prompt, max_tokens)
        for attempt in range(1, _TRIES + 1):
            found = self._hard_divergence(request, concurrency, tie_margin)
            if found is None:
                return
            if attempt == _TRIES:
                raise LosslessViolation(self._message(request, concurrency, found))

    def _hard_divergence(self, request: PlannedRequest, concurrency: int, tie_margin: float) -> _Found | str | None:
        ours, theirs = (self._answers(server, request, concurrency) for server in (self.specdec, self.baseline))
        for spec, base in zip(ours, theirs, strict=True):
            if base.error or spec.error:
                if _same_refusal(base.error, spec.error):
                    return None
                return f"the baseline: {base.error or 'answers'}; with speculation: {spec.error or 'answers'}"
            found = self._compared(request, _tokens(base), _tokens(spec))
            if found is not None and (found.margin_nats is None or found.margin_nats > tie_margin):
                return found
        return None

    def _answers(self, server: Endpoint, request: PlannedRequest, concurrency: int) -> tuple[RequestSample, ...]:
        from dataclasses import replace

        from pytest_specdec.load.asking import ask_all

        plan = [replace(request, index=index) for index in range(concurrency)]
        load = LoadSpec(concurrency=concurrency, num_requests=concurrency, max_tokens=request.max_tokens)
        return ask_all(server, plan, load, alive=self.alive, on_progress=lambda *_: None)

    def _compared(self, request: PlannedRequest, base: tuple[int, ...], spec: tuple[int, ...]) -> _Found | None:
        from pytest_specdec.load.asking import Place, likelihoods

        position = first_difference(base, spec)
        if position is None:
            return None
        if position == min(len(base), len(spec)):
            ends = [tokens[position] if position < len(tokens) else None for tokens in (base, spec)]
            return _Found(position, (ends[0], ends[1]), None)
        pair = (base[position], spec[position])
        (likelihood,) = likelihoods(
            self.baseline,
            [Place(request, base[:position], pair)],
            LoadSpec(concurrency=1, num_requests=1),
            alive=self.alive,
            on_progress=lambda *_: None,
        )
        if likelihood.gaps_nats is None:
            raise InvalidMeasurement(
                f"the answers differ at token {position}, and the baseline does not tell how likely the two tokens are: "
                f"{likelihood.unscored}",
                where=self.baseline.base_url,
                remedy="Let it list log-probabilities (--max-logprobs 20, vLLM's default).",
            )
        return _Found(position, pair, max(likelihood.gaps_nats))

    def _message(self, request: PlannedRequest, concurrency: int, found: _Found | str) -> str:
        if isinstance(found, str):
            what = f"one server refuses what the other answers: {found}"
        else:
            base, spec = found.tokens
            by = "one answer stops there" if found.margin_nats is None else f"{found.margin_nats:.2f} nats apart"
            what = f"token {found.position} is {base} without speculation and {spec} with it ({by}), each time it was asked"
        beside = f", {concurrency} at once" if concurrency > 1 else ""
        size = f"{len(request.prompt.text)} character" + ("" if len(request.prompt.text) == 1 else "s")
        return "\n".join(
            [
                f"speculation changes the answer: {what}{beside}",
                f"prompt ({size}): {_shown(request.prompt.text)}",
                "without speculation:",
                f"  {_curl(self.baseline, request)}",
                "with speculation:",
                f"  {_curl(self.specdec, request)}",
            ]
        )


def probe_of(config: SpecConfig, launch: Callable[[], tuple[Server, Server]]) -> LosslessProbe:
    """A probe of a config's servers.

    Args:
        config: Refused before any launch where its verification changes answers by design.
        launch: Baseline and speculating server, started if they are not up.

    Raises:
        CannotMeasure: Outputs of this config say nothing, or a server does not come up.
    """
    from pytest_specdec.core.output_rules import check_faithful, check_same_model
    from pytest_specdec.core.validity import verification_of
    from pytest_specdec.rounds import endpoint_of
    from pytest_specdec.serving.process import all_alive

    check_faithful(verification_of(config.speculative_config), LoadSpec(), "assert_lossless")
    check_same_model(config.serve_specdec, "assert_lossless")
    servers = launch()
    baseline, specdec = (endpoint_of(server) for server in servers)
    return LosslessProbe(baseline, specdec, all_alive(servers))


def _request(prompt: str | Sequence[Mapping[str, Any]], max_tokens: int) -> PlannedRequest:
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.prompt_reader import Prompt

    one = (
        Prompt(index=0, prompt=prompt)
        if isinstance(prompt, str)
        else Prompt(index=0, messages=tuple(dict(message) for message in prompt))
    )
    return PlannedRequest(index=0, prompt=one, due_s=None, max_tokens=max_tokens, seed=0)


def _tokens(sample: RequestSample) -> tuple[int, ...]:
    if sample.token_ids is None:
        raise InvalidMeasurement(
            "a server tells no token ids, so answers cannot be compared",
            remedy="Use a vLLM that knows return_token_ids (0.20 and later), and no proxy that drops it.",
        )
    return sample.token_ids


def _same_refusal(base: str | None, spec: str | None) -> bool:
    """Both servers refuse the request itself: too long, for example."""
    return all(error is not None and error.startswith("HTTP 4") for error in (base, spec))


def _curl(server: Endpoint, request: PlannedRequest) -> str:
    """The request as a command line that can be run while the server is up; in ASCII, so that it survives any terminal."""
    prompt = request.prompt
    path = "/v1/completions" if prompt.messages is None else "/v1/chat/completions"
    asked = {"prompt": prompt.prompt} if prompt.messages is None else {"messages": list(prompt.messages)}
    body = {
        "model": server.model,
        **asked,
        "max_tokens": request.max_tokens,
        "temperature": 0,
        "return_token_ids": True,
    }
    return f"curl -s {server.base_url}{path} -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"


def _shown(text: str) -> str:
    shown = ascii(text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown} ..."
