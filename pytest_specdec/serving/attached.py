"""Servers that something else started: asked what they are, measured, and left alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import LaunchError, ScrapeError
from pytest_specdec.core.samples import ServerRecord
from pytest_specdec.core.server_facts import ServerFacts
from pytest_specdec.serving.prometheus import parse_scrape
from pytest_specdec.serving.scrape_source import get_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytest_specdec.core.samples import Arm


@dataclass(frozen=True)
class AttachedServer:
    """What a measurement needs of a server, as :class:`pytest_specdec.serving.process.Server` has it; :func:`attach` makes one.

    Nothing of it can be seen but what it answers: neither its processes nor its devices nor its log.
    """

    arm: Arm
    base_url: str
    served_name: str
    version: str | None
    headers: Mapping[str, str]
    facts: ServerFacts
    devices: tuple[int, ...] = ()
    startup_s: float = 0.0
    asleep: bool = False

    @property
    def identity(self) -> str:
        """Both may serve a model of the same name."""
        return self.base_url

    @property
    def log_path(self) -> str:
        """Where to look for what happened to it."""
        return self.base_url

    @property
    def record(self) -> ServerRecord:
        """As it was found."""
        return ServerRecord(
            arm=self.arm,
            command=(),
            env={},
            model=self.served_name,
            version=self.version,
            log="",
            startup_s=0.0,
            attached=self.base_url,
            facts=self.facts,
        )

    def pids(self) -> frozenset[int]:
        """None that we know."""
        return frozenset()

    def check_alive(self) -> None:
        """Nobody can tell; requests that fail do."""


class AttachedPool:
    """Stands where :class:`pytest_specdec.serving.pool.ServerPool` does: hands out the two servers, starts and ends nothing.

    Args:
        urls: Of each arm's server.
        headers: Sent with every request.
    """

    def __init__(self, urls: Mapping[Arm, str], headers: Mapping[str, str]) -> None:
        self._urls, self._headers = urls, headers
        self._servers: dict[Arm, AttachedServer] = {}

    def acquire(self, key: str, *_: Any, **__: Any) -> AttachedServer:
        """The server whose arm begins the key.

        Raises:
            LaunchError: It does not answer as vLLM does.
        """
        arm = _arm(key)
        if arm not in self._servers:
            self._servers[arm] = attach(arm, self._urls[arm], self._headers)
        return self._servers[arm]

    def running(self, key: str) -> AttachedServer | None:
        """The server, once it has been asked what it is."""
        return self._servers.get(_arm(key))

    def begin(self, *_: Any, **__: Any) -> None:
        """They run already."""

    def settle(self) -> None:
        """They run already."""

    def pids(self) -> frozenset[int]:
        """None that we know."""
        return frozenset()

    def close(self, key: str) -> None:
        """They are not ours to end."""

    def close_others(self, keep: Collection[str]) -> None:
        """Likewise."""

    def close_all(self) -> None:
        """Likewise."""


def attach(arm: Arm, url: str, headers: Mapping[str, str], *, timeout_s: float = 10.0) -> AttachedServer:
    """Ask a server what it is.

    Args:
        arm: Its part in the comparison.
        url: ``http://HOST:PORT``, without ``/v1``; behind ``#`` the name of its model, where it serves several.
        headers: Sent along.
        timeout_s: For each answer.

    Raises:
        LaunchError: It does not answer, is no vLLM, or serves several models and none was named.
    """
    base_url, _, name = url.partition("#")
    base_url = base_url.rstrip("/").removesuffix("/v1")

    def ask(path: str) -> str:
        try:
            return get_text(base_url + path, timeout_s, headers)
        except ScrapeError as error:
            raise LaunchError(
                f"--specdec-attach: the {arm} server: GET {path}: {error.what}",
                where=base_url,
                remedy="Is it up, and reachable from here? Keys go into SPECDEC_API_KEY, other headers into SPECDEC_HEADERS.",
            ) from None

    models = _models(ask("/v1/models"), arm, base_url)
    if name and name not in models:
        raise LaunchError(
            f"--specdec-attach: the {arm} server does not serve {name!r}, but {', '.join(models)}", where=base_url
        )
    if not name and len(models) > 1:
        raise LaunchError(
            f"--specdec-attach: the {arm} server serves several models: {', '.join(models)}",
            where=base_url,
            remedy=f"Name one behind its address: {base_url}#{next(iter(models))}",
        )
    served = name or next(iter(models))
    try:
        parse_scrape(ask("/metrics"))
    except ScrapeError as error:
        raise LaunchError(
            f"--specdec-attach: the {arm} server: GET /metrics: {error.what}",
            where=base_url,
            remedy="Counters are needed. A gateway in front of vLLM hides them: name the server itself, and start it without --disable-log-stats.",
        ) from None
    known = {
        what: str(models[served][key])
        for what, key in (("model", "root"), ("maximum model length", "max_model_len"))
        if models[served].get(key) is not None
    }
    return AttachedServer(arm, base_url, served, _version(ask), headers, ServerFacts(effective=known))


def _models(text: str, arm: Arm, base_url: str) -> dict[str, dict[str, Any]]:
    try:
        models = {str(model["id"]): dict(model) for model in json.loads(text)["data"]}
    except (ValueError, KeyError, TypeError):
        models = {}
    if not models:
        raise LaunchError(f"--specdec-attach: the {arm} server: GET /v1/models names no model", where=base_url)
    return models


def _version(ask: Any) -> str | None:
    try:
        version = json.loads(ask("/version"))["version"]
    except (LaunchError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, str) else None


def _arm(key: str) -> Arm:
    return "baseline" if key.startswith("baseline") else "specdec"
