"""Which configs belong together, which K are tried, and what is said where vLLM follows no schedule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_specdec.core.config import load_configs
from pytest_specdec.core.errors import CannotMeasure, ConfigError
from pytest_specdec.core.results import GateRecord
from pytest_specdec.core.schedule import KPoint, with_schedule
from pytest_specdec.dynamic import _instead, derive, families
from pytest_specdec.reporting.config_file import write_config
from pytest_specdec.reporting.schedule_lines import gain_table, recommendation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig

NGRAM = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2}
SCHEDULE = ((1, 4, 4), (5, 32, 0))


@pytest.fixture
def configs(tmp_path: Path) -> Callable[..., list[SpecConfig]]:
    def load(**files: dict[str, Any]) -> list[SpecConfig]:
        paths = []
        for name, data in files.items():
            paths.append(tmp_path / f"{name}.json")
            paths[-1].write_text(json.dumps({"model": "m", "speculative_config": NGRAM | data}))
        return load_configs(paths, default_model=None)[0]

    return load


def test_configs_that_differ_in_k_are_one_family_and_only_their_k_are_tried(configs: Any) -> None:
    (family,) = families(configs(k2={"num_speculative_tokens": 2}, k5={"num-speculative-tokens": 5}), replace=False)
    assert family.candidates == (2, 5)
    assert (family.id, family.path.name) == ("k5-dynamic", "k5-dynamic.json")
    assert [family.member(k).id for k in family.candidates] == ["k2", "k5"]


def test_configs_that_differ_otherwise_are_families_of_their_own(configs: Any) -> None:
    found = families(
        configs(a={"num_speculative_tokens": 2}, b={"num_speculative_tokens": 4, "prompt_lookup_max": 5}), replace=False
    )
    assert [family.id for family in found] == ["a-dynamic", "b-dynamic"]


@pytest.mark.parametrize(("k", "tried"), [(1, (1,)), (3, (1, 3)), (5, (1, 2, 5)), (8, (1, 2, 4, 8))])
def test_a_single_config_is_tried_with_half_a_quarter_and_so_on_of_its_k(configs: Any, k: int, tried: tuple) -> None:  # type: ignore[type-arg] # of whole numbers
    (family,) = families(configs(only={"num_speculative_tokens": k}), replace=False)
    assert family.candidates == tried
    assert [family.member(one).num_speculative_tokens for one in tried] == list(tried)


def test_a_config_that_has_a_schedule_is_left_alone(configs: Any) -> None:
    with pytest.raises(ConfigError, match="has a num_speculative_tokens_per_batch_size already"):
        families(configs(a=with_schedule({}, SCHEDULE)), replace=False)


def test_a_copy_keeps_its_form_and_changes_the_speculation_only(tmp_path: Path) -> None:
    bare, envelope = tmp_path / "bare.json", tmp_path / "envelope.yaml"
    bare.write_text(json.dumps(NGRAM | {"num_speculative_tokens": 6}))
    envelope.write_text(
        "model: m  # the target\nspeculative-config: {method: ngram, num_speculative_tokens: 6}\nserve: {a: 1}\n"
    )
    for source in (bare, envelope):
        copy = source.with_stem(f"{source.stem}-copy")
        write_config(source, copy, lambda speculative: with_schedule(speculative, SCHEDULE), replace=False)
        (config,), _ = load_configs([copy], default_model="m")
        assert config.speculative_config["num_speculative_tokens_per_batch_size"] == [[1, 4, 4], [5, 32, 0]]
        assert config.num_speculative_tokens == 4
    assert "speculative_config" not in json.loads(bare.with_stem("bare-copy").read_text())
    assert yaml.safe_load(envelope.with_stem("envelope-copy").read_text())["serve"] == {"a": 1}


def test_a_copy_replaces_nothing_unless_it_may_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    source, copy = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(json.dumps(NGRAM | {"num_speculative_tokens": 6}))
    copy.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        write_config(source, copy, dict, replace=False)
    assert copy.read_text() == "mine"
    write_config(source, copy, dict, replace=True)
    assert json.loads(copy.read_text())["num_speculative_tokens"] == 6
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "b.json"}


def test_without_schedules_the_load_is_limited_or_k_lowered_with_the_figures() -> None:
    falling = [KPoint(1, 4, 0.4), KPoint(8, 4, 0.1), KPoint(32, 4, -0.3), KPoint(1, 2, 0.3), KPoint(8, 2, 0.2)]
    assert _instead([*falling, KPoint(32, 2, 0.05)]) == (
        "limit the load to concurrency 8, the highest at which K = 4 gains, or lower K to 2, which gains 5.0 % at concurrency 32"
    )
    assert _instead([*falling, KPoint(32, 2, -0.05)]).endswith("no smaller K gains at concurrency 32 either")


def test_the_table_shows_the_scheduled_k_of_every_load() -> None:
    points = [KPoint(1, 4, 0.4), KPoint(8, 4, -0.1)]
    assert gain_table(points, ((1, 4, 4), (5, 8, 0))) == [
        "concurrency     K = 4   scheduled K",
        "          1    40.0 %             4",
        "          8   -10.0 %             0",
    ]


def test_only_a_config_that_was_gated_and_met_everything_is_recommended() -> None:
    from pytest_specdec.core.verdict import Estimate, Requirement, Verdict

    def gate(outcome: Any, verdict: Any) -> GateRecord:
        one = Verdict(Requirement("tpot_gain", 0.1), Estimate(0.2), verdict, "higher", "fraction")
        return GateRecord("t.py::t", "c", outcome, verdicts=(one,))

    assert recommendation("c.json", [gate("passed", "ok")], "") == "recommended, its gate is ok: use c.json"
    assert (
        recommendation("c.json", [gate("passed", "ok"), gate("failed", "FAIL")], "K = 1")
        == "not recommended: t.py::t is FAIL"
    )
    assert recommendation("c.json", [gate("passed", "unsure")], "") == "not recommended: t.py::t is unsure"
    assert recommendation("c.json", [gate("failed", "ok")], "") == "not recommended: t.py::t is ok"
    assert recommendation("c.json", [gate("passed", "ok")], "K = 1 does better") == "not recommended: K = 1 does better"
    assert recommendation("c.json", [], "") == "not recommended yet: no gate has judged it"


def test_a_k_that_cannot_be_measured_leaves_no_server_behind(configs: Any, tmp_path: Path) -> None:
    class Session:
        released: list[str] = []  # noqa: RUF012 - one test, one session
        announced: list[str] = []  # noqa: RUF012 - likewise

        def start_soon(self, configs: Iterable[SpecConfig]) -> None:
            self.announced += [config.id for config in configs]

        def judge(self, *_: Any, **__: Any) -> Any:
            raise CannotMeasure("the server died")

        def release(self, config: SpecConfig) -> None:
            self.released.append(config.id)

    (family,) = families(configs(only={"num_speculative_tokens": 3}), replace=False)
    session: Any = Session()
    with pytest.raises(CannotMeasure, match="the server died"):
        derive(session, family, (), test_dir=tmp_path)
    assert session.announced == ["only-k1", "only"]
    assert session.released == ["only-k1"]
