"""Both arms of a rollout from a Prometheus server: counters and histograms over a window, by label selector."""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement, SpecDecError
from pytest_specdec.core.live_window import LiveArm, LiveHistogram, LiveWindow, grown
from pytest_specdec.core.metric_names import COUNTS, GENERATING, HISTOGRAMS, HTTP_REQUESTS, PER_POSITION, SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_specdec.core.intervals import Floats

SLICES = 12
AUTHORIZATION = "SPECDEC_PROMETHEUS_AUTHORIZATION"
"""Environment variable: the value of the header ``Authorization``."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BUCKETS = {f"{name}_bucket": quantity for quantity, name in HISTOGRAMS.items()}
_SUMS = {f"{name}_sum": quantity for quantity, name in HISTOGRAMS.items()}
_WANTED = sorted({*COUNTS.values(), *SECONDS.values(), PER_POSITION, *_BUCKETS, *_SUMS, HTTP_REQUESTS})


@dataclass(frozen=True)
class Series:
    """One series of a range query."""

    labels: Mapping[str, str]
    values: Floats
    """Shape (points,), NaN where there is none."""

    @property
    def name(self) -> str:
        """Of the metric."""
        return self.labels["__name__"]


def window_seconds(text: str) -> float:
    """``90s``, ``30m``, ``6h`` or ``1d``.

    Raises:
        SpecDecError: Something else.
    """
    match = re.fullmatch(r"(\d+)([smhd])", text.strip())
    if match is None or int(match[1]) == 0:
        raise SpecDecError(f"{text!r} is no length of time", remedy="Such as 90s, 30m, 6h or 1d.")
    return int(match[1]) * float(_UNITS[match[2]])


def matchers(selector: str) -> str:
    """The inside of a label selector: ``{a="b"}`` and ``a="b"`` alike.

    Raises:
        SpecDecError: It chooses nothing in particular.
    """
    inside = selector.strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
    if not re.match(r"[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*[\"']", inside):
        raise SpecDecError(f"{selector!r} is no label selector", remedy="Such as '{version=\"canary\"}'.")
    return inside


@dataclass(frozen=True)
class PrometheusApi:
    """The HTTP API of a Prometheus, or of anything that speaks it."""

    url: str
    timeout_s: float = 30.0

    def window(self, baseline: str, specdec: str, window_s: float, *, end_unix_s: float | None = None) -> LiveWindow:
        """Both arms over the same time.

        Args:
            baseline: Label selector of the servers without speculation.
            specdec: Of the servers with it.
            window_s: Length.
            end_unix_s: Its end; the Prometheus server's present when left out.

        Raises:
            CannotMeasure: The server does not answer, or a selector chooses no vLLM.
            InvalidMeasurement: A server belongs to both arms.
        """
        end = self._now_unix_s() if end_unix_s is None else end_unix_s
        found = {selector: self._series(selector, window_s, end) for selector in (baseline, specdec)}
        instances = [
            {tuple(sorted((k, v) for k, v in one.labels.items())) for one in found[selector]}
            for selector in (baseline, specdec)
        ]
        if shared := instances[0] & instances[1]:
            example = dict(next(iter(sorted(shared))))
            raise InvalidMeasurement(
                f"both selectors choose the same server: {example.get('instance') or example}",
                remedy="Choose labels that only one of the arms has.",
            )
        base, spec = (self._arm(selector, found[selector], window_s, end) for selector in (baseline, specdec))
        return LiveWindow(base, spec, window_s)

    def _arm(self, selector: str, series: list[Series], window_s: float, end: float) -> LiveArm:
        query = f"sum(resets({COUNTS['generation_tokens']}{{{matchers(selector)}}}[{math.ceil(window_s)}s]))"
        resets = self._get("query", query=query, time=f"{end:.3f}")["result"]
        restarts = round(float(resets[0]["value"][1])) if resets else 0
        return live_arm(selector, series, restarts)

    def _series(self, selector: str, window_s: float, end: float) -> list[Series]:
        names = "|".join(_WANTED)
        step = window_s / SLICES
        answer = self._get(
            "query_range",
            query=f'{{__name__=~"{names}",{matchers(selector)}}}',
            start=f"{end - window_s:.3f}",
            end=f"{end:.3f}",
            step=f"{step:.3f}",
        )
        series = [Series(row["metric"], _on_grid(row["values"], end - window_s, step)) for row in answer["result"]]
        if not any(one.name.startswith("vllm:") for one in series):
            raise CannotMeasure(
                f"no vLLM server has the labels {{{matchers(selector)}}} within the window",
                where=self.url,
                remedy="Look at the labels of vllm:generation_tokens_total in Prometheus.",
            )
        return series

    def _now_unix_s(self) -> float:
        return float(self._get("query", query="time()")["result"][1])

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        import http.client
        import urllib.error
        import urllib.request

        remedy = "Check the address; a token goes into the environment variable " + AUTHORIZATION + "."
        authorization = os.environ.get(AUTHORIZATION)
        try:
            host = urlsplit(self.url).hostname
            request = urllib.request.Request(  # noqa: S310 - as below
                f"{self.url.rstrip('/')}/api/v1/{path}",
                data=urlencode(parameters).encode(),
                headers={"Authorization": authorization} if authorization else {},
            )
            # A proxy set for the company's network cannot see this machine's own servers.
            proxies = [urllib.request.ProxyHandler({})] if host in {"localhost", "127.0.0.1", "::1"} else []
            with urllib.request.build_opener(*proxies).open(request, timeout=self.timeout_s) as response:
                answer = json.loads(response.read())
        except urllib.error.HTTPError as error:
            said = _message(error.read()) or f"{error.code} {error.reason}"
            raise CannotMeasure(f"Prometheus refused the query: {said}", where=self.url, remedy=remedy) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CannotMeasure(f"Prometheus did not answer: {error}", where=self.url, remedy=remedy) from None
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise CannotMeasure("what answered is no Prometheus", where=self.url, remedy=remedy)
        data: dict[str, Any] = answer["data"]
        return data


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError):
        return ""


def _on_grid(values: Iterable[tuple[float, str]], start: float, step: float) -> Floats:
    points = np.full(SLICES + 1, np.nan)
    for time_s, value in values:
        place = round((time_s - start) / step)
        if 0 <= place <= SLICES:
            points[place] = float(value)
    return points


def live_arm(selector: str, series: Iterable[Series], restarts: int = 0) -> LiveArm:
    """All series of one arm, added up."""
    by_name: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        by_name[one.name].append(one)
    counts = {field: _total(by_name[name]) for field, name in (COUNTS | SECONDS).items() if by_name.get(name)}
    finished = by_name.get(COUNTS["finished_requests"], [])
    counts["errors"] = _total([one for one in finished if one.labels.get("finished_reason") == "error"])
    http = [one for one in by_name.get(HTTP_REQUESTS, []) if re.fullmatch(GENERATING, one.labels.get("handler", ""))]
    if http:
        counts["http_5xx"] = _total([one for one in http if one.labels.get("status", "").startswith("5")])
    positions = _by_label(by_name.get(PER_POSITION, []), "position", int)
    return LiveArm(
        selector=f"{{{matchers(selector)}}}",
        counts=counts,
        positions=np.stack([positions[one] for one in sorted(positions)], axis=1) if positions else None,
        histograms={
            quantity: _histogram(by_name[name], _total(by_name[f"{HISTOGRAMS[quantity]}_sum"]))
            for name, quantity in _BUCKETS.items()
            if by_name.get(name)
        },
        restarts=restarts,
        models=frozenset(
            one.labels["model_name"]
            for one in by_name.get(COUNTS["generation_tokens"], [])
            if "model_name" in one.labels
        ),
    )


def _histogram(buckets: list[Series], sums_s: Floats) -> LiveHistogram:
    cumulative = _by_label(buckets, "le", float)
    bounds = sorted(cumulative)
    table = np.stack([cumulative[bound] for bound in bounds], axis=1)
    # Servers of different releases may have different buckets; what one lacks can look like a negative count.
    return LiveHistogram(tuple(bounds), np.maximum(np.diff(table, axis=1, prepend=0.0), 0.0), sums_s)


def _by_label(series: list[Series], label: str, number: Callable[[str], Any]) -> dict[Any, Floats]:
    groups: dict[Any, list[Series]] = defaultdict(list)
    for one in series:
        groups[number(one.labels[label])].append(one)
    return {key: _total(group) for key, group in groups.items()}


def _total(series: list[Series]) -> Floats:
    if not series:
        return np.zeros(SLICES)
    total: Floats = grown(np.stack([one.values for one in series])).sum(axis=0)
    return total
