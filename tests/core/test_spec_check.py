"""A speculative config against the tables, over every release at which something changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.spec_check import new_problems, speculative_problems
from pytest_specdec.core.spec_fields import FIELDS, SAMPLING_KEYS, V0_KEYS, SpecField
from pytest_specdec.core.spec_methods import CHOICES, METHODS, MTP_ALIASES, Named
from pytest_specdec.core.vllm_versions import ANY, EVERY, Versions, exactly

if TYPE_CHECKING:
    from pytest_specdec.core.serve_rules import Problem

NGRAM: dict[str, Any] = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 4,
}
EAGLE: dict[str, Any] = {"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 3}
GOOD = {
    "int": 2,
    "float": 1.0,
    "bool": True,
    "text": "x",
    "object": {},
    "floats": [0.5],
    "schedule": [[1, 8, 2]],
}
BAD: dict[str, Any] = {
    "int": [2],
    "float": {},
    "bool": "perhaps",
    "text": 3,
    "choice": 3,
    "object": "x",
    "floats": "x",
    "schedule": 3,
}
PLAIN = [field for field in FIELDS.values() if field.kind not in ("internal", "trap")]


def at(version: str) -> Versions:
    versions = exactly(version)
    assert versions is not None
    return versions


def found(config: dict[str, Any], versions: Versions, key: str | None = None, **flags: Any) -> list[Problem]:
    return [p for p in speculative_problems(config, versions, **flags) if key is None or p.keys[-1] == key]


def errors(config: dict[str, Any], version: str, key: str | None = None) -> str:
    problems = found(config, at(version), key)
    return "\n".join(f"{p.what}. {p.remedy}" for p in problems if p.severity == "error")


def before(release: str) -> str:
    """A release that is older than this one and newer than all the others of the tables."""
    major, minor, patch = map(int, release.split("."))
    return f"{major}.{minor - 1}.99" if patch == 0 else f"{major}.{minor}.{patch - 1}"


def value_for(field: SpecField) -> Any:
    if field.kind == "choice":
        return next(name for name, entry in CHOICES[field.name].items() if entry.gone is None)
    return GOOD[field.kind]


@pytest.mark.parametrize("field", [f for f in PLAIN if f.since], ids=lambda field: field.name)
def test_a_field_is_an_error_in_the_release_before_it_came(field: SpecField) -> None:
    assert field.since is not None
    config = EAGLE | {field.name: value_for(field)}
    assert f"known since vLLM {field.since}" in errors(config, before(field.since), field.name)
    assert not errors(config, field.since, field.name).startswith("is known since")


@pytest.mark.parametrize("field", [f for f in PLAIN if f.gone], ids=lambda field: field.name)
def test_a_field_is_an_error_from_the_release_on_that_dropped_it(field: SpecField) -> None:
    assert field.gone is not None
    config = EAGLE | {field.name: value_for(field)}
    text = errors(config, field.gone, field.name)
    assert f"gone since {field.gone}" in text
    assert field.instead in text
    assert "gone" not in errors(config, before(field.gone), field.name)


@pytest.mark.parametrize("field", PLAIN, ids=lambda field: field.name)
def test_a_value_of_the_wrong_kind_is_an_error_at_its_key(field: SpecField) -> None:
    release = before(field.gone) if field.gone else "0.33.0"
    assert errors(EAGLE | {field.name: BAD[field.kind]}, release, field.name)


@pytest.mark.parametrize("field", [f for f in PLAIN if f.least == 1], ids=lambda field: field.name)
@pytest.mark.parametrize("value", [0, -1])
def test_a_value_below_the_bound_is_an_error_at_its_key(field: SpecField, value: int) -> None:
    assert errors(EAGLE | {field.name: value}, "0.33.0", field.name)


NAMES = [*METHODS.values(), *MTP_ALIASES.values()]


@pytest.mark.parametrize("method", [m for m in NAMES if m.since], ids=lambda method: method.name)
def test_a_method_is_an_error_in_the_release_before_it_came(method: Named) -> None:
    assert method.since is not None
    config = EAGLE | {"method": method.name}
    assert f"known since vLLM {method.since}" in errors(config, before(method.since), "method")
    assert "known since" not in errors(config, method.since, "method")


@pytest.mark.parametrize("method", ["medusa", "mlp_speculator"])
def test_a_method_is_an_error_from_the_release_on_that_dropped_it(method: str) -> None:
    assert errors(EAGLE | {"method": method}, "0.32.0") == ""
    assert "gone since 0.33.0. Name another method" in errors(EAGLE | {"method": method}, "0.33.0")


CHOICE_NAMES = [(field, entry) for field, names in CHOICES.items() for entry in names.values()]


@pytest.mark.parametrize(("field", "entry"), CHOICE_NAMES, ids=lambda part: getattr(part, "name", part))
def test_a_value_out_of_a_list_is_known_to_some_releases_only(field: str, entry: Named) -> None:
    config = EAGLE | {field: entry.name}
    if entry.since is not None:
        assert "known since" in errors(config, before(entry.since), field)
    if entry.gone is not None:
        text = errors(config, entry.gone, field)
        assert f'"{entry.name}" is gone since {entry.gone}' in text
        assert entry.instead in text


@pytest.mark.parametrize(
    ("method", "meant"),
    [("EAGLE3", "eagle3"), ("Ngram", "ngram"), ("egale", "eagle"), ("draft-model", "draft_model"), ("peagle", "eagle3"),
     ("new_model_mtp", "mtp"), ("[ngram]", "ngram"), ("suffix_decoding", "suffix")],
)  # fmt: skip
@pytest.mark.parametrize("versions", [EVERY, ANY, at("0.26.0"), at("0.40.0")])
def test_a_misspelt_method_is_an_error_that_names_the_right_one(method: str, meant: str, versions: Versions) -> None:
    (problem, *_) = found(EAGLE | {"method": method}, versions, "method")
    assert problem.severity == "error"
    assert f"Did you mean '{meant}'?" in problem.remedy


@pytest.mark.parametrize(
    ("versions", "severity"), [(EVERY, "warning"), (at("0.26.0"), "error"), (at("0.40.0"), "warning")]
)
def test_a_method_that_nothing_resembles_is_an_error_only_where_the_release_is_known(
    versions: Versions, severity: str
) -> None:
    assert [p.severity for p in found(EAGLE | {"method": "telepathy"}, versions, "method")] == [severity]


@pytest.mark.parametrize(
    ("versions", "name"),
    [
        (EVERY, "vLLM 0.20 to 0.33"),
        (ANY, "vLLM 0.20 to 0.33"),
        (at("0.26.0"), "vLLM 0.26.0"),
        (at("v0.32.0+cpu"), "vLLM 0.32.0+cpu"),
        (at("0.34.0"), "vLLM 0.34.0"),
    ],
)
def test_an_unknown_key_is_a_warning_that_says_who_will_refuse_it(versions: Versions, name: str) -> None:
    (problem,) = found(NGRAM | {"brand_new": 1}, versions)
    assert (problem.severity, problem.remedy) == ("warning", "")
    assert f"{name} will refuse this, unless it is newer than this table, which ends at 0.33" in problem.what


@pytest.mark.parametrize("version", ["0.19.0", "0.33.1rc1", "0.32.1.dev12+gabc123", "0.32.0+ascend"])
def test_an_unknown_method_is_a_warning_where_the_tables_do_not_know_what_runs(version: str) -> None:
    (problem,) = found(EAGLE | {"method": "telepathy"}, at(version), "method")
    assert problem.severity == "warning"


def test_a_key_that_this_release_does_not_take_is_no_suggestion() -> None:
    slip = EAGLE | {"kv_cache_dtyp": "fp8"}
    remedies = [found(slip, at(version), "kv_cache_dtyp")[0].remedy for version in ("0.26.0", "0.24.0")]
    assert remedies == ["Did you mean 'kv_cache_dtype'?", ""]


@pytest.mark.parametrize("versions", [at("0.32.0"), at("0.40.0"), EVERY], ids=["known", "newer", "every"])
@pytest.mark.parametrize("key", ["num_speculative_token", "num_spec_tokens", "speculative_tokens"])
def test_a_slip_in_the_number_of_tokens_is_told_once(key: str, versions: Versions) -> None:
    (problem,) = found({"method": "ngram", key: 3, "prompt_lookup_min": 2, "prompt_lookup_max": 4}, versions)
    assert (problem.severity, problem.keys[-1]) == ("error", key)
    assert "did you mean num_speculative_tokens?" in problem.remedy


def test_an_unknown_key_near_a_known_one_gets_a_suggestion() -> None:
    (problem,) = found(NGRAM | {"promt_lookup_max": 1}, at("0.26.0"))
    assert problem.remedy == "Did you mean 'prompt_lookup_max'?"


@pytest.mark.parametrize("key", sorted(V0_KEYS))
def test_a_flag_of_old_as_a_key_is_an_error_that_names_the_key(key: str) -> None:
    assert (V0_KEYS[key] or "Remove it") in errors(NGRAM | {key: 1}, "0.26.0", key)


@pytest.mark.parametrize("key", sorted(SAMPLING_KEYS))
def test_sampling_in_the_config_is_an_error(key: str) -> None:
    assert "sampling belongs to the workload" in errors(NGRAM | {key: 1}, "0.26.0", key)


@pytest.mark.parametrize("field", [f for f in FIELDS.values() if f.kind in ("internal", "trap")], ids=lambda f: f.name)
@pytest.mark.parametrize("version", ["0.20.0", "0.33.0"])
def test_keys_that_are_not_for_people_are_errors_in_every_release(field: SpecField, version: str) -> None:
    assert field.instead in errors(NGRAM | {field.name: None}, version, field.name)


@pytest.mark.parametrize(
    ("versions", "severity"), [(at("0.25.0"), "error"), (at("0.26.0"), "warning"), (ANY, "warning")]
)
def test_hyphens_in_keys_are_taken_from_0_26_on(versions: Versions, severity: str) -> None:
    config = {"method": "ngram", "num-speculative-tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    (problem,) = found(config, versions)
    assert (problem.severity, problem.keys[-1]) == (severity, "num-speculative-tokens")
    assert found(config, EVERY) == []


def test_two_spellings_of_one_key_are_refused() -> None:
    assert "is the same key as" in errors(NGRAM | {"num-speculative-tokens": 3}, "0.26.0", "num-speculative-tokens")


def test_while_the_release_is_unknown_only_what_holds_for_all_is_said() -> None:
    config = EAGLE | {"kv_cache_dtype": "fp8", "disable_by_batch_size": 4}
    assert [(p.keys[-1], p.severity) for p in found(config, EVERY)] == [("disable_by_batch_size", "error")]


def test_where_the_release_stays_unknown_the_rest_is_said_with_an_if() -> None:
    problems = found(EAGLE | {"kv_cache_dtype": "fp8"}, ANY)
    assert [(p.keys[-1], p.severity) for p in problems] == [("kv_cache_dtype", "warning")]
    assert "if vLLM is older than 0.26.0" in problems[0].what
    (gone,) = found(EAGLE | {"method": "medusa"}, ANY)
    assert "if vLLM is 0.33.0 or newer" in gone.what


def test_what_was_told_without_the_version_is_not_told_again_with_it() -> None:
    config = EAGLE | {"max_model_len": "64", "kv_cache_dtype": "fp8"}
    early = found(config, EVERY)
    late = new_problems(found(config, at("0.24.0")), early)
    assert [p.keys[-1] for p in early] == ["max_model_len"]
    assert [p.keys[-1] for p in late] == ["kv_cache_dtype"]


SOME = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([*METHODS, "1", "0.5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
KEYS = st.sampled_from([*FIELDS, *V0_KEYS, "temperature", "num-speculative-tokens"]) | st.text(max_size=6)


@given(
    st.dictionaries(KEYS, SOME, max_size=7),
    st.sampled_from([EVERY, ANY, at("0.20.0"), at("0.26.0"), at("0.33.0"), at("0.50.0")]),
    st.lists(st.sampled_from(["-tp", "2", "--max-model-len", "8", "--data-parallel-size=2", "x"]), max_size=4),
)
def test_whatever_stands_in_a_config_the_answer_is_problems_with_words(
    config: dict[str, Any], versions: Versions, flags: list[str]
) -> None:
    for problem in speculative_problems(config, versions, flags=flags):
        assert problem.severity in ("error", "warning", "note")
        assert problem.what
        assert problem.keys[0] == "speculative_config"
