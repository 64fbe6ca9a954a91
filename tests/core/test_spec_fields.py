"""The tables against what the sources of vLLM's releases say, release by release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.core.spec_fields import FIELDS, V0_KEYS
from pytest_specdec.core.spec_methods import CHOICES, METHODS, MTP_ALIASES, OTHER_NAMES, SPECULATORS
from pytest_specdec.core.vllm_versions import NEWEST, OLDEST, exactly

SURVEY: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/vllm/speculative.json").read_text())
RELEASES = list(SURVEY)
TYPES = {
    "int": "int",
    "bool": "bool",
    "float": "float",
    "list[float]": "floats",
    "list[tuple[int, int, int]]": "schedule",
    "LoadConfig": "object",
    "RejectionSampleMethod": "choice",
    "DraftSampleMethod": "choice",
    "Literal['fp8', 'nvfp4']": "choice",
}


def known(version: str, entries: Any) -> set[str]:
    versions = exactly(version)
    assert versions is not None
    return {name for name, entry in entries.items() if versions.standing(entry.since, entry.gone) == "known"}


def test_the_survey_covers_every_release_that_is_supported() -> None:
    supported = [release for release in RELEASES if release >= OLDEST]
    assert supported[0] == OLDEST
    assert supported[-1] == f"{NEWEST}.0"
    assert len(supported) == 14


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_knows_the_fields_that_the_table_says(release: str) -> None:
    assert known(release, FIELDS) == set(SURVEY[release]["fields"])


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_knows_the_methods_that_the_table_says(release: str) -> None:
    assert known(release, METHODS | MTP_ALIASES) == set(SURVEY[release]["methods"])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("field", ["rejection_sample_method", "draft_sample_method"])
def test_each_release_knows_the_values_that_the_table_says(release: str, field: str) -> None:
    assert known(release, CHOICES[field]) == set(SURVEY[release][field])


@pytest.mark.parametrize("release", [release for release in RELEASES if release >= OLDEST])
def test_each_release_reads_the_speculators_formats_that_the_table_says(release: str) -> None:
    versions = exactly(release)
    assert versions is not None
    read = {name for name, (_, since) in SPECULATORS.items() if versions.standing(since, None) == "known"}
    assert read - {"eagle"} == set(SURVEY[release]["speculators"])


@pytest.mark.parametrize("name", SURVEY["0.33.0"]["fields"])
def test_types_defaults_and_null_are_those_of_the_newest_release(name: str) -> None:
    kind, default = SURVEY["0.33.0"]["fields"][name]
    field = FIELDS[name]
    if field.kind in ("internal", "trap"):
        return
    assert field.kind == TYPES.get(kind.removesuffix(" | None"), "text")
    assert field.nullable == ("| None" in kind)
    if "ge=" in default or "gt=" in default:
        assert field.least == (1 if "gt=0" in default else int(default.partition("ge=")[2].rstrip(")")))
    if default not in ("None", "'standard'") and "default=None" not in default:
        assert (
            repr(field.default) == default.partition("default=")[2].partition(",")[0] or repr(field.default) == default
        )


def test_what_is_gone_names_what_to_do_instead() -> None:
    gone: list[Any] = [
        *FIELDS.values(),
        *METHODS.values(),
        *(entry for names in CHOICES.values() for entry in names.values()),
    ]
    assert [entry.name for entry in gone if entry.gone and not entry.instead] == []


def test_other_names_lead_to_names_that_exist() -> None:
    assert set(V0_KEYS.values()) - {""} <= set(FIELDS)
    assert set(OTHER_NAMES.values()) <= set(METHODS)
    assert not set(OTHER_NAMES) & set(METHODS)
    assert not set(V0_KEYS) & set(FIELDS)
    assert {method for method, _ in SPECULATORS.values()} <= set(METHODS)
