"""A package ``vllm`` that has what the offline engine asks of the real one, laid out as older releases did; it answers in no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

INIT = """
import dataclasses, os, subprocess, sys, time
from types import SimpleNamespace as Record

__version__ = "0.99.0"


@dataclasses.dataclass
class SamplingParams:
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    ignore_eos: bool
    max_tokens: int
    seed: int


class LLM:
    def __init__(self, **settings):
        self.settings = settings
        self.counted = 0
        mode = os.environ.get("STAND_IN")
        if mode == "fails":
            raise ValueError("No available memory for the cache blocks. Try increasing `gpu_memory_utilization`")
        if mode == "hangs":
            worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            print("worker", worker.pid, flush=True)
            time.sleep(600)

    def chat(self, messages, sampling, *, chat_template, **others):
        return [self._answer(len(one) + 100 * bool(chat_template), params) for one, params in zip(messages, sampling)]

    def generate(self, prompts, sampling):
        return [self._answer(1000 + len(prompt), params) for prompt, params in zip(prompts, sampling)]

    def _answer(self, first, params):
        ids = [first, *range(1, params.max_tokens)]
        self.counted += len(ids)
        return Record(outputs=[Record(token_ids=ids, finish_reason="length")], prompt_token_ids=[1, 2])

    def get_metrics(self):
        assert self.settings["disable_log_stats"] is False
        counted = self.counted + (os.environ.get("STAND_IN") == "miscounts")
        yield Record(name="vllm:generation_tokens", labels={"engine": "0"}, value=counted)
        yield Record(name="vllm:inter_token_latency_seconds", labels={}, count=30, sum=0.5, buckets={})
        if self.settings["speculative_config"]:
            for engine in "01":
                yield Record(name="vllm:spec_decode_num_drafts", labels={"engine": engine}, value=10)
                yield Record(name="vllm:spec_decode_num_draft_tokens", labels={}, value=20)
                yield Record(name="vllm:spec_decode_num_accepted_tokens", labels={}, value=9)
                yield Record(name="vllm:spec_decode_num_accepted_tokens_per_pos", labels={}, values=[6, 3])
"""
ARG_UTILS = """
import dataclasses, json


@dataclasses.dataclass
class EngineArgs:
    model: str
    speculative_config: dict | None = None
    max_model_len: int | None = None
    disable_log_stats: bool = True

    @classmethod
    def from_cli_args(cls, args):
        return cls(args.model, args.speculative_config, args.max_model_len, args.disable_log_stats)
"""
CLI_ARGS = """
import json


def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    parser.add_argument("--chat-template")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--disable-log-stats", action="store_true")
    parser.add_argument("--speculative-config", type=json.loads)
    return parser
"""


def make_stand_in(folder: Path) -> Path:
    """Write the package; returns what belongs into ``PYTHONPATH``."""
    files = {
        "__init__.py": INIT,
        "engine/__init__.py": "",
        "engine/arg_utils.py": ARG_UTILS,
        "utils/__init__.py": "from argparse import ArgumentParser as FlexibleArgumentParser",
        "entrypoints/__init__.py": "",
        "entrypoints/openai/__init__.py": "",
        "entrypoints/openai/cli_args.py": CLI_ARGS,
    }
    for name, text in files.items():
        path = folder / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
