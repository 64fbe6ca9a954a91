"""What to do about a request that a server refused: from vLLM's words to a remedy."""

from __future__ import annotations

_REMEDIES = {
    "maximum context length": "Raise max_model_len in `serve`, or take shorter prompts or a smaller max_tokens.",
    "chat template": "Set chat_template in `serve`, or take a workload whose lines have `prompt` instead of `messages`.",
    "--tool-call-parser": "Set enable_auto_tool_choice: true and tool_call_parser in `serve`: the workload's lines offer tools.",
}


def remedy_for(error: str) -> str:
    """What the words of a failed request ask for; empty where they ask for nothing that is known."""
    return next((remedy for words, remedy in _REMEDIES.items() if words in error), "")
