"""Where the text of a scrape comes from: a saved file, or the ``/metrics`` of a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_specdec.core.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_metrics_text(source: str, *, timeout_s: float = 10.0) -> str:
    """The text of a saved scrape, or of a running server.

    Args:
        source: A file, or an ``http(s)://`` address; ``/metrics`` is added to an address without a path.
        timeout_s: For connecting and for each read.

    Raises:
        ScrapeError: The file cannot be read or the server does not answer with text.
    """
    if source.startswith(("http://", "https://")):
        return get_text(source, timeout_s, usual_path="/metrics")
    try:
        with open(source, encoding="utf-8-sig") as file:  # noqa: PTH123 - the user's own string, shown back in errors
            return file.read()
    except OSError as error:
        raise ScrapeError(
            f"cannot be read: {error.strerror or error}",
            where=source,
            remedy="Give a file saved from GET /metrics, or an address that starts with http://.",
        ) from None
    except UnicodeDecodeError:
        raise ScrapeError(
            "is not UTF-8 text", where=source, remedy="Save the answer of GET /metrics uncompressed."
        ) from None


def get_text(url: str, timeout_s: float, headers: Mapping[str, str] | None = None, *, usual_path: str = "") -> str:
    """The body of ``GET url``; ``usual_path`` is added to an address without a path.

    Raises:
        ScrapeError: No answer, a status other than 200, or no text.
    """
    import http.client
    import urllib.request

    try:
        parts = urlsplit(url)
        full = url if parts.path.strip("/") else parts._replace(path=usual_path or parts.path).geturl()
        # A proxy set for the company's network cannot see this machine's own servers.
        loopback = (parts.hostname or "") in {"localhost", "127.0.0.1", "::1"}
        proxies = [urllib.request.ProxyHandler({})] if loopback else []
        opener = urllib.request.build_opener(*proxies)
        asked = urllib.request.Request(full, headers=dict(headers or {}))  # noqa: S310 - callers take http and https only
        with opener.open(asked, timeout=timeout_s) as response:
            return str(response.read().decode("utf-8"))
    except (
        OSError,
        ValueError,
        http.client.HTTPException,
    ) as error:  # URLError is an OSError, UnicodeError a ValueError
        raise ScrapeError(
            f"did not answer with metrics: {error}",
            where=url,
            remedy="Check that the server is up and that the address is the one of its /metrics.",
        ) from None
