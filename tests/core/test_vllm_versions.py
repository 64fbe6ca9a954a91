from __future__ import annotations

import pytest

from pytest_specdec.core.vllm_versions import ANY, EVERY, at_least, exactly, release_of


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.26.0", (0, 26, 0)),
        ("v0.32.1rc1+cpu", (0, 32, 1)),
        ("0.20.2.post1", (0, 20, 2)),
        ("0.33", (0, 33)),
        ("dev", None),
        ("0.1.dev12345+g0123abc", None),
        ("", None),
        (None, None),
    ],
)
def test_a_release_is_its_numbers(version: str | None, release: tuple[int, ...] | None) -> None:
    assert release_of(version) == release


@pytest.mark.parametrize(
    ("version", "since", "gone", "standing"),
    [
        ("0.25.0", "0.26.0", None, "too early"),
        ("0.26.0", "0.26.0", None, "known"),
        ("0.26.0rc1", "0.26.0", None, "known"),
        ("0.16.0", None, "0.17.0", "known"),
        ("0.17.0", None, "0.17.0", "gone"),
        ("0.40.0", "0.8.3", "0.10.0", "gone"),
    ],
)
def test_a_name_stands_between_the_release_that_brought_it_and_the_one_that_took_it(
    version: str, since: str | None, gone: str | None, standing: str
) -> None:
    versions = exactly(version)
    assert versions is not None
    assert versions.standing(since, gone) == standing


@pytest.mark.parametrize(
    ("since", "gone", "standing"),
    [
        ("0.12.0", None, "known"),
        ("0.26.0", None, "depends"),
        (None, "0.33.0", "depends"),
        (None, "0.17.0", "gone"),
        ("0.34.0", None, "too early"),
    ],
)
def test_for_every_supported_release_only_what_holds_for_all_is_certain(
    since: str | None, gone: str | None, standing: str
) -> None:
    assert EVERY.standing(since, gone) == ANY.standing(since, gone) == standing


@pytest.mark.parametrize(("version", "beyond"), [("0.33.0", False), ("0.33.9", False), ("0.34.0", True)])
def test_patches_of_the_newest_release_are_within_the_tables(version: str, beyond: bool) -> None:  # noqa: FBT001 - a table's column
    versions = exactly(version)
    assert versions is not None
    assert versions.beyond is beyond


@pytest.mark.parametrize(
    ("version", "minimum", "expected"),
    [
        ("0.30.0", "0.30", True),
        ("0.29.1", "0.30", False),
        ("v0.32.1rc1+cpu", "0.30", True),
        ("0.30", "0.30.0", True),
        (None, "0.1", False),
        ("dev", "0.1", False),
    ],
)
def test_versions_compare_as_numbers(version: str | None, minimum: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert at_least(version, minimum) is expected
