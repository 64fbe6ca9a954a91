"""A speculative config against the tables: what the releases in question refuse, change silently, or take oddly.

Errors are what is known to be wrong, warnings what vLLM changes or takes oddly, notes what it decides where the config is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specdec.core.config_rules import shown
from pytest_specdec.core.serve_rules import Problem
from pytest_specdec.core.spec_fields import FIELDS, SAMPLING_KEYS, V0_KEYS, SpecField
from pytest_specdec.core.spec_given import Given
from pytest_specdec.core.spec_methods import CHOICES, METHODS, MTP_ALIASES, OTHER_NAMES, Named
from pytest_specdec.core.spec_rules import rules_between
from pytest_specdec.core.spec_values import Taken, taken
from pytest_specdec.core.suggest import did_you_mean
from pytest_specdec.core.vllm_versions import NEWEST, OLDEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.places import KeyPath
    from pytest_specdec.core.vllm_versions import Versions

_SPEC = "speculative_config"
_HYPHENS_SINCE = "0.26.0"


def speculative_problems(config: Any, versions: Versions, *, flags: Sequence[str] = ()) -> Iterator[Problem]:
    """Everything that the tables and the rules between keys say.

    Args:
        config: The speculative config as written; what is no object is judged elsewhere.
        versions: The releases that it may meet.
        flags: Words of the command line of both servers, for what depends on the target's parallelism and length.
    """
    if not isinstance(config, dict) or not config:
        return
    written: dict[str, str] = {}
    values: dict[str, Any] = {}
    unknown: list[str] = []
    strangers: list[Problem] = []
    for key, value in config.items():
        name = str(key).replace("-", "_") if str(key).replace("-", "_") in FIELDS else str(key)
        if name in written:
            yield Problem((_SPEC, key), f"is the same key as {written[name]}", "Keep the one you mean.")
            continue
        written[name] = key
        if name not in FIELDS:
            unknown.append(key)
            strangers += _stranger((_SPEC, key), str(key), versions)
            continue
        result, problems = _read((_SPEC, key), FIELDS[name], value, versions)
        yield from problems
        if value is None and result == Taken(oddity=result.oddity):
            del written[name]  # left out, as far as vLLM is concerned
        elif result.value is not None and not result.fault:
            values[name] = result.value
    yield from _method((_SPEC, written.get("method", "method")), values.get("method"), versions)
    between = list(rules_between(Given(values, written, tuple(unknown), versions, tuple(flags))))
    # A slip in a required key is one mistake, and the rule that misses the key has told it.
    told = {problem.keys for problem in between}
    yield from (problem for problem in strangers if problem.keys not in told)
    yield from between


def _read(keys: KeyPath, field: SpecField, value: Any, versions: Versions) -> tuple[Taken, list[Problem]]:
    """A value as vLLM takes it, and what there is to say about key and value."""
    problems = list(_hyphenated(keys, field.name, versions)) if keys[-1] != field.name else []
    problems += [*_age(keys, field, versions), *_never(keys, field)]
    if any(problem.severity == "error" for problem in problems):
        return Taken(fault="refused with its key"), problems
    result = taken(field, value)
    if result.fault:
        problems.append(Problem(keys, result.fault))
    elif result.oddity:
        problems.append(Problem(keys, result.oddity, "", "warning"))
    if field.kind == "choice" and isinstance(result.value, str) and not result.fault:
        problems += _choice(keys, field, result.value, versions)
    return result, problems


def _hyphenated(keys: KeyPath, name: str, versions: Versions) -> Iterator[Problem]:
    standing = versions.standing(_HYPHENS_SINCE, None)
    remedy = f"Write {name}."
    if standing == "too early":
        yield Problem(
            keys, f"has hyphens, which {versions.name} does not take: only {_HYPHENS_SINCE} and later do", remedy
        )
    elif standing == "depends" and versions.ifs:
        yield Problem(
            keys, f"has hyphens, and if vLLM is older than {_HYPHENS_SINCE} it refuses the key", remedy, "warning"
        )
    elif standing == "known":
        yield Problem(keys, f"has hyphens, taken as {name}", remedy, "warning")


def _stranger(keys: KeyPath, key: str, versions: Versions) -> Iterator[Problem]:
    """A key that is in none of the releases."""
    plain = key.strip().replace("-", "_").lower()
    if plain in V0_KEYS:
        today = V0_KEYS[plain]
        what = (
            "is the name of a flag, not of a key"
            if plain.startswith("spec_") and today
            else "is gone since vLLM 0.9.0, where it was a flag"
        )
        yield Problem(keys, what, f"Use {today}." if today else "Remove it: nothing took its place.")
        return
    if plain in SAMPLING_KEYS:
        what = "is no part of speculation: sampling belongs to the workload"
        yield Problem(keys, what, "Set it with spec_load(...), or under `load` in the envelope.")
        return
    taken_there = [
        field.name
        for field in FIELDS.values()
        if field.kind not in ("internal", "trap") and versions.standing(field.since, field.gone) in ("known", "depends")
    ]
    meant = did_you_mean(key, taken_there, cutoff=0.75)
    suggestion = f"Did you mean {meant!r}?" if meant else ""
    whose = versions.name if versions.one else f"vLLM {OLDEST[:-2]} to {NEWEST}"
    what = f"is unknown here and passed on; {whose} will refuse this, unless it is newer than this table, which ends at {NEWEST}"
    yield Problem(keys, what, suggestion, "warning")


def _never(keys: KeyPath, field: SpecField) -> Iterator[Problem]:
    if field.kind == "trap":
        yield Problem(keys, "is refused by every vLLM, in which it is there to catch a mistake", field.instead)
    elif field.kind == "internal":
        yield Problem(keys, "is internal: vLLM sets it itself", field.instead)


def _age(keys: KeyPath, field: SpecField | Named, versions: Versions, subject: str = "") -> Iterator[Problem]:
    """Whether the releases know a key or a name; one rule for fields, methods and choices."""
    since, gone, standing = field.since, field.gone, versions.standing(field.since, field.gone)
    lead = f"{subject} " if subject else ""
    newer = f"Run vLLM {since} or newer, or {'name another' if subject else 'leave it out'}."
    if standing == "too early":
        what = f"{lead}is known since vLLM {since}, and {versions.name} refuses it"
        yield Problem(keys, what, field.instead or newer)
    elif standing == "gone":
        yield Problem(keys, f"{lead}is gone since {gone}", field.instead)
    elif standing == "depends" and versions.ifs:
        oldest_ok = versions.standing(since, None) == "known"
        if not oldest_ok:
            yield Problem(keys, f"{lead}is refused if vLLM is older than {since}", field.instead or newer, "warning")
        if versions.standing(None, gone) != "known":
            yield Problem(keys, f"{lead}is refused if vLLM is {gone} or newer", field.instead, "warning")


def _choice(keys: KeyPath, field: SpecField, value: str, versions: Versions) -> Iterator[Problem]:
    names = CHOICES[field.name]
    if value in names:
        yield from _age(keys, names[value], versions, subject=shown(value))
        return
    meant = did_you_mean(value, names)
    known = [name for name, entry in names.items() if versions.standing(entry.since, entry.gone) == "known"]
    remedy = f"Did you mean {meant!r}?" if meant else f"Known are {', '.join(known or names)}."
    severity = "warning" if versions.beyond and meant is None else "error"
    yield Problem(keys, f"{shown(value)} is no {field.name}", remedy, severity)


def _method(keys: KeyPath, method: Any, versions: Versions) -> Iterator[Problem]:
    if not isinstance(method, str):
        return
    if method in METHODS:
        yield from _age(keys, METHODS[method], versions, subject=f"method {method}")
        return
    if method in MTP_ALIASES:
        problems = list(_age(keys, MTP_ALIASES[method], versions, subject=f"method {method}"))
        yield from problems
        if not any(problem.severity == "error" for problem in problems):
            yield Problem(keys, f"{shown(method)} is a deprecated name, reported as mtp", "Write mtp.", "warning")
        return
    plain = method.strip().lower().replace("-", "_")
    meant = OTHER_NAMES.get(plain) or did_you_mean(plain, METHODS, cutoff=0.7)
    if meant is None and plain.endswith("_mtp"):
        meant = "mtp"
    if meant is not None:
        # vLLM compares letter by letter.
        yield Problem(keys, f"{shown(method)} is no method", f"Did you mean {meant!r}?{_parallel(plain)}")
        return
    known = [name for name, entry in METHODS.items() if versions.standing(entry.since, entry.gone) != "too early"]
    what = f"{shown(method)} is no method of {versions.name if versions.one else f'vLLM up to {NEWEST}'}"
    yield Problem(keys, what, f"Known are {', '.join(known)}.", "error" if versions.surely else "warning")


def _parallel(plain: str) -> str:
    return ' With "parallel_drafting": true.' if plain in ("peagle", "p_eagle") else ""


def new_problems(problems: Sequence[Problem], before: Sequence[Problem]) -> list[Problem]:
    """What one look found that another had not: the same key with the same or a worse severity counts as told."""
    told = {(problem.keys, problem.severity) for problem in before}
    return [
        problem
        for problem in problems
        if (problem.keys, problem.severity) not in told and (problem.keys, "error") not in told
    ]
