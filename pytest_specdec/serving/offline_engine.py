"""Run by vLLM's own interpreter, never imported by the plugin: answers a job's requests with ``vllm.LLM`` and reports what it counted.

``python offline_engine.py JOB``: JOB is the file that :mod:`pytest_specdec.serving.offline` writes; the report goes to the file that it
names. The server's own parser reads the server's own flags, so that both engines are set up by the same words.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

# This file's folder would come first among the places that vLLM's imports are looked for in.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

_HOMES = {
    "LLM": ("vllm",),
    "SamplingParams": ("vllm",),
    "EngineArgs": ("vllm.engine.arg_utils",),
    "FlexibleArgumentParser": ("vllm.utils.argparse_utils", "vllm.utils"),
    "make_arg_parser": ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args"),
}
"""Where releases keep what is needed here, the newer place first."""


def main() -> None:
    """Start the engine, answer, report."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    arguments = _parsed(job["words"])
    began = time.monotonic()
    engine = _engine(arguments)
    started = time.monotonic()
    answers = _answers(engine, arguments, job)
    ended = time.monotonic()
    report = {
        "version": importlib.import_module("vllm").__version__,
        "startup_s": started - began,
        "generate_s": ended - started,
        "answers": answers,
        "metrics": _metrics(engine),
    }
    # Whole or not at all: whoever finds the file may read it.
    partial = Path(f"{job['report']}.partial")
    partial.write_text(json.dumps(report), encoding="utf-8")
    partial.rename(job["report"])


def _known(name: str) -> Any:
    missing: Exception | None = None
    for home in _HOMES[name]:
        try:
            return getattr(importlib.import_module(home), name)
        except (ImportError, AttributeError) as error:
            missing = missing or error
    raise RuntimeError(f"this vLLM has no {name} in {' or '.join(_HOMES[name])}") from missing


def _parsed(words: list[str]) -> Any:
    arguments = _known("make_arg_parser")(_known("FlexibleArgumentParser")()).parse_args(words)
    if getattr(arguments, "model_tag", None) is not None:
        arguments.model = arguments.model_tag
    return arguments


def _engine(arguments: Any) -> Any:
    settings = _known("EngineArgs").from_cli_args(arguments)
    settings.disable_log_stats = False  # without them nothing is counted
    return _known("LLM")(**vars(settings))


def _answers(engine: Any, arguments: Any, job: dict[str, Any]) -> list[dict[str, Any]]:
    """In the order of the requests; chats pass through the server's chat template."""
    requests = job["requests"]
    sampling = [
        _known("SamplingParams")(**job["sampling"], max_tokens=request["max_tokens"], seed=request["seed"])
        for request in requests
    ]
    chats = [place for place, request in enumerate(requests) if request["messages"] is not None]
    plain = [place for place, request in enumerate(requests) if request["messages"] is None]
    outputs: dict[int, Any] = {}
    if chats:
        found = engine.chat(
            [requests[place]["messages"] for place in chats],
            [sampling[place] for place in chats],
            chat_template=_template(getattr(arguments, "chat_template", None)),
            chat_template_content_format=getattr(arguments, "chat_template_content_format", "auto"),
            chat_template_kwargs=getattr(arguments, "default_chat_template_kwargs", None),
        )
        outputs |= dict(zip(chats, found, strict=True))
    if plain:
        found = engine.generate([requests[place]["prompt"] for place in plain], [sampling[place] for place in plain])
        outputs |= dict(zip(plain, found, strict=True))
    return [
        {
            "token_ids": list(outputs[place].outputs[0].token_ids),
            "finish_reason": outputs[place].outputs[0].finish_reason,
            "prompt_tokens": len(outputs[place].prompt_token_ids or ()),
        }
        for place in range(len(requests))
    ]


def _template(given: str | None) -> str | None:
    """``--chat-template`` is a file or the template itself."""
    if given is None:
        return None
    try:
        return Path(given).read_text(encoding="utf-8")
    except OSError:
        return given


def _metrics(engine: Any) -> list[dict[str, Any]]:
    """Counters as ``value``, counters per position as ``values``, histograms as ``count`` and ``sum``."""
    kept = ("name", "labels", "value", "values", "count", "sum")
    return [{key: getattr(metric, key) for key in kept if hasattr(metric, key)} for metric in engine.get_metrics()]


if __name__ == "__main__":
    main()
