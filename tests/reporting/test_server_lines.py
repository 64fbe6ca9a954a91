"""What vLLM changed and how the servers differ, in the report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.core.server_facts import ServerFacts
from pytest_specdec.reporting.measurement import measurement_lines
from pytest_specdec.reporting.server_lines import server_lines

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.summary import Summary


def with_servers(
    comparison: Comparison, baseline: tuple[str, ...], specdec: tuple[str, ...], backends: tuple[str, str] = ("A", "A")
) -> Comparison:
    changed = {"baseline": baseline, "specdec": specdec}
    facts = {
        arm: ServerFacts(effective={"backend": backend})
        for arm, backend in zip(("baseline", "specdec"), backends, strict=True)
    }
    servers = tuple(
        replace(server, changed_by_vllm=changed[server.arm], facts=facts[server.arm]) for server in comparison.servers
    )
    return replace(comparison, servers=servers)


def test_a_change_is_told_with_its_side(comparison: Comparison) -> None:
    assert server_lines(with_servers(comparison, ("both", "plain"), ("both", "drafting"))) == [
        "vLLM changed, on both sides: both",
        "vLLM changed, on the baseline only: plain",
        "vLLM changed, on the speculating side only: drafting",
    ]


def test_differences_are_one_line(comparison: Comparison) -> None:
    assert server_lines(with_servers(comparison, (), (), ("A", "B"))) == [
        "differs besides speculation: backend A against B"
    ]


def test_nothing_to_say_is_no_line(comparison: Comparison) -> None:
    assert server_lines(comparison) == []


def test_they_are_part_of_the_report(comparison: Comparison, summary: Summary) -> None:
    changed = with_servers(comparison, (), ("drafting",), ("A", "B"))
    assert measurement_lines(changed, summary)[-2:] == server_lines(changed)
