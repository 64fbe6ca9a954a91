"""Rankings as text: one table per load, and who is faster beyond doubt. Fits 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.duel import Duel
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.ranking import Contender, Ranking
    from pytest_specdec.core.verdict import Estimate

_UNKNOWN = "-"
_WIDTH = 80


def ranking_lines(ranking: Ranking) -> list[str]:
    """The table of one load, and what it proves."""
    title = f"ranking by speed per token: {ranking.workload}, {ranking.load.describe()}"
    notes = [*_conclusions(ranking), *_throughput_notes(ranking), *_problems(ranking)]
    return [title, *_table(ranking.contenders), *(line for note in notes for line in _wrapped(note))]


def ranking_text(ranking: Ranking) -> str:
    """``eagle3 31.2 % (28.1 .. 34.0 %), ngram -3.1 % (-6.0 .. 1.0 %); winner: eagle3: ...``."""
    gains = [f"{contender_name(one)} {_interval(one.gain)}" for one in ranking.contenders if one.gain is not None]
    return "; ".join([", ".join(gains), *_conclusions(ranking), *_problems(ranking)])


def unranked_line(config_ids: Sequence[str]) -> str:
    """Why there is no ranking of these configs."""
    return f"not ranked: {' and '.join(config_ids)} have different baselines (model, server flags or device differ)"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _table(contenders: Sequence[Contender]) -> list[str]:
    columns = {
        "TPOT gain": [_interval(one.gain) for one in contenders],
        "AL": [_number(one.acceptance_length) for one in contenders],
        "tok/step": [_number(one.tokens_per_step) for one in contenders],
        "tok/s": [_signed(one.throughput) for one in contenders],
        "KV lost": [_percent(one.kv_capacity_loss) for one in contenders],
        "GPU GiB": [_number(one.gpu_memory_gib, 1) for one in contenders],
        "start": [_number(one.startup_s, 0, " s") for one in contenders],
    }
    known = {heading: cells for heading, cells in columns.items() if set(cells) != {_UNKNOWN} or heading == "TPOT gain"}
    widths = [max(len(heading), *map(len, cells)) for heading, cells in known.items()]
    names = [contender_name(one) for one in contenders]
    rows = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in zip(*([heading, *cells] for heading, cells in known.items()), strict=True)
    ]
    width = max(map(len, ("config", *names)))
    if 4 + width + len(rows[0]) <= _WIDTH:
        return [f"  {name:<{width}}  {row}".rstrip() for name, row in zip(("config", *names), rows, strict=True)]
    # Long names get a line of their own, so that the figures stay in columns.
    body = [line for name, row in zip(names, rows[1:], strict=True) for line in (f"  {name}", f"    {row}".rstrip())]
    return [f"    {rows[0]}".rstrip(), *body]


def contender_name(one: Contender) -> str:
    """The config's id, with method and K where it does not tell them."""
    told = one.method is None or one.method in one.config_id
    tokens = "" if one.num_speculative_tokens is None else f" K={one.num_speculative_tokens}"
    return one.config_id + ("" if told else f" ({one.method}{tokens})")


def _problems(ranking: Ranking) -> list[str]:
    return [f"{one.config_id} is not ranked: {one.problem}" for one in ranking.contenders if one.problem]


def _conclusions(ranking: Ranking) -> list[str]:
    if not ranking.duels:
        return []
    first, second = ranking.contenders[:2]
    duel = ranking.duel(first.config_id, second.config_id)
    if ranking.winner is not None and duel is not None:
        return [f"winner: {ranking.winner}: {_how_much(duel)} less time per token than {second.config_id}"]
    doubtful = [duel for duel in ranking.duels if not duel.told_apart and first.config_id in (duel.ahead, duel.behind)]
    return [
        f"no winner: {duel.ahead} and {duel.behind} cannot be told apart with these rounds ({_how_much(duel)})"
        for duel in doubtful
    ]


def _how_much(duel: Duel) -> str:
    less = duel.less_time
    if less.low is None or less.high is None:
        return "no interval"
    low = f"{100 * less.low:.1f}" if less.low > -1 else "below -100"  # a few rounds can leave everything possible
    return f"{low} .. {100 * less.high:.1f} %"


def _throughput_notes(ranking: Ranking) -> list[str]:
    loads = {one.config_id: one.throughput_load for one in ranking.contenders if one.throughput is not None}
    shown = {config_id: _how_busy(load) for config_id, load in loads.items() if load is not None}
    if not shown:
        return []
    if len(set(shown.values())) == 1:
        return [f"tok/s: throughput gain at the highest load measured, {next(iter(shown.values()))}"]
    each = ", ".join(f"{config_id} {text}" for config_id, text in shown.items())
    return [f"tok/s: throughput gain at the highest load measured: {each}"]


def _how_busy(load: LoadSpec) -> str:
    return f"{load.request_rate:g} requests per second" if load.open_loop else f"concurrency {load.concurrency}"


def _interval(gain: Estimate | None) -> str:
    if gain is None:
        return _UNKNOWN
    ends = "" if gain.low is None or gain.high is None else f" ({100 * gain.low:.1f} .. {100 * gain.high:.1f} %)"
    return f"{100 * gain.value:.1f} %{ends}"


def _signed(estimate: Estimate | None) -> str:
    return _UNKNOWN if estimate is None else f"{100 * estimate.value:+.1f} %"


def _percent(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{100 * share:.1f} %"


def _number(value: float | None, decimals: int = 2, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value:.{decimals}f}{unit}"
