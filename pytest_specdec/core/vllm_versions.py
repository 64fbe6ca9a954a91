"""vLLM's releases: which are known here, and how something stands that came with one release and went with another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

OLDEST = "0.20.0"
NEWEST = "0.33"
"""The tables of fields and methods are read from the sources of these releases and of those between them."""

Release = tuple[int, ...]
Standing = Literal["known", "too early", "gone", "depends"]
_LAST_PATCH = 10**6
_PUBLISHED = re.compile(r"v?\d+(\.\d+)+(\.post\d+)?(\+(cpu|cu\d+|rocm\d*|xpu|tpu|empty))?")
"""Versions of vLLM's own builds: no pre-release, no checkout (``.dev7+gabc``), no name of a fork behind the plus."""


def release_of(version: str | None) -> Release | None:
    """``v0.26.0rc1+cpu`` is ``(0, 26, 0)``; None for what is no release (``dev``, and the ``0.1.dev`` of an untagged checkout)."""
    found = re.match(r"v?(\d+(?:\.\d+)+)(?!\d)", version or "")
    if found is None or re.match(r"v?0\.1\.dev", version or ""):
        return None
    return tuple(map(int, found[1].split(".")))


def at_least(version: str | None, minimum: str) -> bool:
    """Whether a version is known and not older; pre-releases and local parts do not matter."""
    release, least = release_of(version), release_of(minimum)
    return release is not None and least is not None and (*release, 0, 0) >= least


@dataclass(frozen=True)
class Versions:
    """The releases that a config may meet: one, or every supported one."""

    oldest: Release
    newest: Release
    name: str
    """For messages: ``vLLM 0.26.0``, or ``vLLM``."""
    ifs: bool = False
    """Whether to mention what holds for a part of these releases only."""
    published: bool = False
    """Whether this is a release as vLLM published it; a checkout or a fork may know what no release does."""

    def standing(self, since: str | None, gone: str | None) -> Standing:
        """How something stands that is known from one release on, until another no longer knows it."""
        first = release_of(since)
        last = release_of(gone)
        if first is not None and self.newest < first:
            return "too early"
        if last is not None and self.oldest >= last:
            return "gone"
        partly = (first is not None and self.oldest < first) or (last is not None and self.newest >= last)
        return "depends" if partly else "known"

    @property
    def beyond(self) -> bool:
        """Whether these are newer than the tables, which then cannot say what is unknown."""
        newest = release_of(NEWEST)
        return newest is not None and self.oldest[:2] > newest

    @property
    def surely(self) -> bool:
        """Whether a method that stands in none of the tables is surely unknown there."""
        return self.published and not self.beyond and self.oldest >= (release_of(OLDEST) or ())

    @property
    def one(self) -> bool:
        """Whether the release is known."""
        return self.oldest == self.newest


def exactly(version: str) -> Versions | None:
    """The one release of this name; None where it does not name a release."""
    release = release_of(version)
    if release is None:
        return None
    published = _PUBLISHED.fullmatch(version) is not None
    return Versions(release, release, f"vLLM {version.removeprefix('v')}", published=published)


EVERY = Versions(release_of(OLDEST) or (), (*(release_of(NEWEST) or ()), _LAST_PATCH), "vLLM")
"""While it is not known yet which release will run: only what holds for all of them is said."""
ANY = Versions(EVERY.oldest, EVERY.newest, "vLLM", ifs=True)
"""Where it cannot be known (a container): what holds for some of them is said with an "if"."""
