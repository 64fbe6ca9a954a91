# ruff: noqa: INP001 - a script, not a package
"""What the releases of vLLM know about speculation: their sources in, ``tests/data/vllm/speculative.json`` out.

    python scripts/survey_speculative.py 0.32.0=/path/to/site-packages 0.33.0=/path/to/unpacked/wheel > speculative.json

Each folder holds a ``vllm`` package, installed or unpacked from a wheel; nothing of it is imported. Only names, types and defaults
are written.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> None:
    """Survey every VERSION=FOLDER."""
    surveyed = {}
    for argument in arguments:
        version, _, folder = argument.partition("=")
        package = Path(folder) / "vllm"
        speculators = package / "transformers_utils" / "configs" / "speculators" / "algos.py"
        surveyed[version] = _speculative((package / "config" / "speculative.py").read_text(encoding="utf-8")) | {
            "speculators": _speculators(speculators.read_text(encoding="utf-8"))
        }
    print(json.dumps(surveyed, indent=1))  # noqa: T201 - that is its output


def _speculative(source: str) -> dict[str, Any]:
    literals: dict[str, list[str]] = {}
    fields: dict[str, list[str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            target = node.targets[0]
            if isinstance(target, ast.Name) and ast.unparse(node.value.value) == "Literal":
                literals[target.id] = _names(node.value.slice, literals)
        elif isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig":
            fields = {
                ast.unparse(inner.target): [ast.unparse(inner.annotation), ast.unparse(inner.value)]
                for inner in node.body
                if isinstance(inner, ast.AnnAssign) and inner.value is not None
            }
    return {
        "fields": fields,
        "methods": sorted(literals["SpeculativeMethod"]),
        "rejection_sample_method": sorted(literals.get("RejectionSampleMethod", [])),
        "draft_sample_method": sorted(literals.get("DraftSampleMethod", [])),
    }


def _names(node: ast.expr, known: dict[str, list[str]]) -> list[str]:
    """The names of a Literal, with those of the Literals in it."""
    found = []
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        if isinstance(part, ast.Constant):
            found.append(str(part.value))
        elif isinstance(part, ast.Name):
            found += known.get(part.id, [])
        elif isinstance(part, ast.Subscript):
            found += _names(part.slice, known)
    return found


def _speculators(source: str) -> list[str]:
    return sorted(
        str(decorator.args[0].value)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
