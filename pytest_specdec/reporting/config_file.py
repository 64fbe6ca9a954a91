"""A config file written after the likeness of another one: same form, same suffix, whole or not at all."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.config_form import form_of
from pytest_specdec.core.config_text import read_config_text
from pytest_specdec.core.errors import ConfigError, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def write_config(
    source: Path,
    path: Path,
    change: Callable[[Mapping[str, Any]], dict[str, Any]],
    *,
    replace: bool,
    serve_specdec: Callable[[Any], Any] | None = None,
) -> None:
    """Copy a config with another speculative config, bare or as an envelope as the source is. Comments are not copied.

    Args:
        source: The config to copy.
        path: The copy, in the source's folder, because paths in it count from there.
        change: From the speculative config as written to the new one.
        replace: A file that is there may be replaced.
        serve_specdec: From the flags of the speculating server, or None, to the new ones; makes an envelope of a bare config.

    Raises:
        ConfigError: The source is no config any more, the file is there, or it cannot be written.
    """
    text = read_config_text(source)
    form, problems = form_of(text)
    if form is None:
        raise ConfigError([Finding("error", text.where(one.keys), one.what, one.remedy) for one in problems])
    changed = change(form.data["speculative_config"])
    data = changed if form.bare and serve_specdec is None else {**form.data, "speculative_config": changed}
    if serve_specdec is not None:
        data["serve_specdec"] = serve_specdec(form.data.get("serve_specdec"))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            partial.write_text(_dumped(data, path.suffix.lower()), encoding="utf-8")
            if replace:
                os.replace(partial, path)  # noqa: PTH105 - the one call whose atomicity matters, by its own name
            else:
                os.link(partial, path)  # a rename would replace what came there meanwhile
        finally:
            partial.unlink(missing_ok=True)
    except FileExistsError:
        what, remedy = "is there already", "Let it be replaced with --specdec-replace, or remove it."
        raise ConfigError([Finding("error", str(path), what, remedy)]) from None
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise ConfigError([Finding("error", str(path), what, "Free space or make its folder writable.")]) from None


def _dumped(data: Mapping[str, Any], suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=None)
