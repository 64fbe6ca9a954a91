"""A program for the interpreter that runs vLLM: what the sources of its vLLM hold, as JSON. vLLM is read, never imported.

It is handed over as text (``python -c``), so it may use the standard library only.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path

_PARTS = ("config", "engine", "entrypoints", "platforms", "utils")
"""Folders of vLLM in which flags are made."""
_ANCHORS = {"host", "port", "served-model-name", "speculative-config"}
"""Flags that every server has: where they are missing, flags are made elsewhere than is read here."""
_PLAIN_STATEMENTS = (ast.AnnAssign, ast.Assign, ast.Expr, ast.FunctionDef, ast.Pass)


class Unclear(Exception):  # noqa: N818 - no error: the answer is "cannot be told"
    """The sources are not written as this program expects them."""


def main() -> None:
    """Print ``flags``, ``[stated, fields]``, and ``keys``, ``[fields, others]``, each null where the sources do not tell."""
    # `-c` puts the current folder first, in which a `vllm` may lie that the server would not run.
    sys.path[:] = [path for path in sys.path if path]
    root = _folder("vllm")
    plugins = _plugins()
    json.dump({"flags": flags_in(root, plugins), "keys": keys_in(root, plugins)}, sys.stdout)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else Path("nowhere")


def _plugins() -> list[str] | None:
    """Sources of what vLLM loads beside itself, which may add flags and replace classes; None where there are some without sources."""
    packages = {
        entry.value.partition(":")[0].partition(".")[0]
        for one in importlib.metadata.distributions()
        for entry in one.entry_points
        if entry.group in ("vllm.platform_plugins", "vllm.general_plugins")
    }
    sources = [_texts(_folder(package)) for package in sorted(packages - {"vllm"})]
    return [text for texts in sources for text in texts] if all(sources) else None


def _texts(folder: Path) -> list[str]:
    return [file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.rglob("*.py"))]


def flags_in(root: Path, plugins: list[str] | None) -> list[list[str]] | None:
    """Every ``--name`` in a text, and every annotated field, because vLLM makes flags of its settings: too much rather than too little.

    Args:
        root: vLLM's package.
        plugins: Further texts.
    """
    sources = [_texts(root / part) for part in _PARTS]
    if plugins is None or not all(sources):
        return None
    texts = [text for part in (*sources, plugins) for text in part]
    stated = {name for text in texts for name in re.findall(r"--(?:no-)?([A-Za-z][A-Za-z0-9_-]*)", text)}
    fields = {name for text in texts for name in re.findall(r"^[ \t]+([A-Za-z]\w*)[ \t]*:", text, re.MULTILINE)}
    if not {name.replace("_", "-") for name in stated | fields} >= _ANCHORS:
        return None
    return [sorted(stated), sorted(fields)]


def keys_in(root: Path, plugins: list[str] | None) -> list[list[str]] | None:
    """Fields of the speculative config, and names that somebody may take beside them; None where it does not surely refuse others.

    Args:
        root: vLLM's package.
        plugins: Texts that may replace the class, as Arctic Inference does: then every word in them is a name that may be taken.
    """
    if plugins is None:
        return None
    touched = any("speculativeconfig" in text.lower().replace("_", "") for text in plugins)
    if touched and any(re.search(r"""\bextra["']?\s*[=:](?!\s*["']forbid["'])""", text) for text in plugins):
        return None
    words = {word for text in plugins for word in re.findall(r"[A-Za-z_]\w*", text)} if touched else set()
    try:
        file, main_class = _defined(root, root / "config" / "speculative.py", "SpeculativeConfig")
        if not _forbids_others(root, file, main_class):
            return None
        return [sorted(_fields(root, file, main_class)), sorted(words | _touched_before(root))]
    except (Unclear, OSError, SyntaxError, ValueError, RecursionError):
        return None


def _defined(root: Path, file: Path, name: str) -> tuple[Path, ast.ClassDef | ast.FunctionDef]:
    """Where in vLLM's own sources a name is defined, as seen from a file of it."""
    for node in reversed(_tree(file).body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return file, node
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _defined(root, _module(root, file, node), alias.name)
    raise Unclear(name)


def _module(root: Path, file: Path, node: ast.ImportFrom) -> Path:
    names = node.module.split(".") if node.module else []
    if not node.level and names[:1] != [root.name]:
        raise Unclear(node.module)
    start = file.parents[node.level - 1] if node.level else root.parent
    place = start.joinpath(*names)
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _fields(root: Path, file: Path, node: ast.ClassDef | ast.FunctionDef) -> set[str]:
    """Annotated fields of a class and of its bases, and their aliases."""
    if not isinstance(node, ast.ClassDef):
        raise Unclear(node.name)
    found: set[str] = set()
    for base in node.bases:
        if not isinstance(base, ast.Name):
            raise Unclear(node.name)
        found |= _fields(root, *_defined(root, file, base.id))
    for statement in node.body:
        if not isinstance(statement, _PLAIN_STATEMENTS) or _changes_input(statement):
            raise Unclear(node.name)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found |= {statement.target.id, *_names_under(statement, "alias")}
    return found


def _changes_input(statement: ast.stmt) -> bool:
    """Whether a method may take keys that are no fields."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    early = [
        decorator
        for decorator in statement.decorator_list
        if "model_validator" in ast.dump(decorator) and _names_under(decorator, "mode") != {"after"}
    ]
    return bool(early) or statement.name in ("__init__", "__new__")


def _forbids_others(root: Path, file: Path, node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Whether a decorator of the class, or the file that defines the decorator, says ``extra="forbid"`` and nothing else."""
    own = {name for decorator in node.decorator_list for name in _names_under(decorator, "extra")}
    if own:
        return own == {"forbid"}
    for decorator in node.decorator_list:
        made_by = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(made_by, ast.Name) and made_by.id == "config":
            place, _ = _defined(root, file, made_by.id)
            return _names_under(_tree(place), "extra") == {"forbid"}
    return False


def _touched_before(root: Path) -> set[str]:
    """Names that vLLM may take out of the object before it becomes the config."""
    _, arguments = _defined(root, root / "engine" / "arg_utils.py", "EngineArgs")
    makers = [
        node
        for node in ast.walk(arguments)
        if isinstance(node, ast.FunctionDef) and node.name == "create_speculative_config"
    ]
    if not makers:
        raise Unclear("create_speculative_config")
    return {name for maker in makers for name in _names(maker)}


def _names_under(node: ast.AST, keyword: str) -> set[str]:
    """Texts in arguments whose name holds a word."""
    given = [part.value for part in ast.walk(node) if isinstance(part, ast.keyword) and keyword in (part.arg or "")]
    return {name for value in given for name in _names(value)}


def _names(node: ast.AST) -> set[str]:
    return {
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier()
    }


if __name__ == "__main__":
    main()
