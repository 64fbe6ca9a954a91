"""YAML read safely and strictly, with places.

The nodes are walked here instead of being constructed by PyYAML, because a config has stricter needs: no name twice, no
objects, and no number that a person and YAML 1.1 would read differently (``010`` is eight there, ``22:22`` is 1342).
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from pytest_specdec.core.places import KeyPath, Parsed, Place, TextProblem, Unreadable
from pytest_specdec.core.strict_json import MAX_DEPTH, unusable_text

if TYPE_CHECKING:
    from yaml.error import Mark

_MAX_NODES = 20_000
"""With aliases a short text can unfold without end; a config never comes near this."""
_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_MAX_NUMBER_LENGTH = 300
_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_LONG_MESSAGE = 200
_SLASHES = re.compile(r"(?m)(?:^|[\s,{\[])(?P<slashes>//|/\*)(?=[\s*\w]|$)")
"""Where a comment of another language begins; a URL has a colon before its slashes."""


def parse_yaml(text: str) -> Parsed:
    """Read one YAML document whose data JSON could hold as well; keys are taken as text. Never raises."""
    walk = _Walk(text)
    return walk.document()


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[KeyPath, Place] = {}
        self._problems: list[TextProblem] = []
        self._nodes = 0

    def document(self) -> Parsed:
        data: Any = None
        try:
            root = self._compose()
            data = self._value(root, (), ())
        except Unreadable as stop:
            self._problems.append(stop.problem)
        return Parsed(data, self._places, tuple(sorted(self._problems, key=lambda problem: problem.place)))

    def _compose(self) -> yaml.Node:
        try:
            root: yaml.Node | None = yaml.compose(self._text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            remedy = "Indent with spaces: YAML takes no tabs." if "'\\t'" in str(error.problem) else ""
            what = ", ".join(part for part in (error.context, error.problem) if part)
            mark = error.problem_mark or error.context_mark
            if mark is not None and (slashes := self._slashes_near(mark)) is not None:
                raise Unreadable(TextProblem(slashes, "YAML has no // comments", "Begin a comment with #.")) from None
            self._stop(mark, f"not YAML: {what}", remedy)
        except yaml.reader.ReaderError as error:
            raise Unreadable(TextProblem(Place.of(self._text, error.position), f"not YAML: {error.reason}")) from None
        except RecursionError:
            self._stop(None, f"nested more than {MAX_DEPTH} levels deep")
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML lets chr() and int() fail on odd escapes
            self._stop(None, f"not YAML: {str(error)[:_LONG_MESSAGE]}")
        if root is None:
            self._stop(None, "the file holds no data", "It has nothing but comments or blank lines.")
        return root

    def _slashes_near(self, mark: Mark) -> Place | None:
        """A comment of another language, on the line of an error or on the one above it."""
        start = self._text.rfind("\n", 0, max(0, self._text.rfind("\n", 0, mark.index))) + 1
        end = self._text.find("\n", mark.index)
        found = _SLASHES.search(self._text, start, end if end >= 0 else len(self._text))
        return Place.of(self._text, found.start("slashes")) if found else None

    def _value(self, node: yaml.Node, keys: KeyPath, above: tuple[yaml.Node, ...]) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            self._stop(node.start_mark, f"the aliases unfold to more than {_MAX_NODES} values")
        if any(node is ancestor for ancestor in above):
            self._stop(node.start_mark, "an alias that contains itself")
        if len(above) > MAX_DEPTH:
            self._stop(node.start_mark, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, keys, (*above, node))
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return self._sequence(node, keys, (*above, node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._note(node.start_mark, f"the tag {_shown(node.tag)} is not supported", "Remove it.")
        return None

    def _sequence(self, node: yaml.SequenceNode, keys: KeyPath, above: tuple[yaml.Node, ...]) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            path = (*keys, index)
            self._places[path] = _place(item.start_mark)
            items.append(self._value(item, path, above))
        return items

    def _mapping(self, node: yaml.MappingNode, keys: KeyPath, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(key_node.start_mark, "a key that is not plain text")
                continue
            if key_node.tag == _TAG + "merge":
                merged |= self._merged(value_node, keys, above)
                continue
            key = self._usable(key_node)
            path = (*keys, key)
            if key in members:
                first = self._places[path]
                what = (
                    f"{key} is given twice, first at line {first.line}, column {first.column}; vLLM would take the last"
                )
                self._note(key_node.start_mark, what, "Keep the one you mean.")
            else:
                self._places[path] = _place(key_node.start_mark)
            members[key] = self._value(value_node, path, above)
        return merged | members

    def _merged(self, node: yaml.Node, keys: KeyPath, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        """What ``<<`` brings in; of several mappings the first wins, and the mapping's own keys win over all."""
        known = dict(self._places)
        brought: dict[str, Any] = {}
        for part in reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]:
            value = self._value(part, keys, above)
            if not isinstance(value, dict):
                self._note(part.start_mark, "<< takes a mapping, or a list of mappings")
                continue
            brought |= value
        self._places |= known
        return brought

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("str", "timestamp", "value", "merge"):
            # 1e-3, which YAML 1.1 takes for text because it has no dot.
            exponent = node.style is None and "e" in node.value.lower() and _NUMBER.fullmatch(node.value)
            return self._number(node) if exponent else self._usable(node)
        if kind == "bool" and node.value.lower() in _BOOLEANS:
            return _BOOLEANS[node.value.lower()]
        if kind in ("int", "float"):
            return self._number(node)
        if kind != "null":
            self._note(node.start_mark, f"the tag {_shown(node.tag)} is not supported", "Remove it.")
        return None

    def _usable(self, node: yaml.ScalarNode) -> str:
        value = str(node.value)
        if fault := unusable_text(value):
            self._note(node.start_mark, f"the text holds {fault}, with which no program can be started")
        return value

    def _number(self, node: yaml.ScalarNode) -> float | None:
        text = node.value
        value: float = math.inf
        if text.lower().lstrip("+-") in (".inf", ".nan"):
            self._note(node.start_mark, f"{text} is not a number that can be used here")
            return None
        if not _NUMBER.fullmatch(text):
            what = f"{_shown(text)} is no plain decimal number: YAML takes such forms as octal, base 60 or the like"
            self._note(node.start_mark, what, "Put it in quotes, or write a plain decimal number.")
            return None
        if len(text) <= _MAX_NUMBER_LENGTH:
            value = int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)
        if not math.isfinite(value):
            self._note(node.start_mark, f"the number {_shown(text)} is too large")
            return None
        return value

    def _note(self, mark: Mark, what: str, remedy: str = "") -> None:
        self._problems.append(TextProblem(_place(mark), what, remedy))

    def _stop(self, mark: Mark | None, what: str, remedy: str = "") -> NoReturn:
        raise Unreadable(TextProblem(_place(mark) if mark else Place(1, 1), what, remedy)) from None


def _place(mark: Mark) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _shown(text: str) -> str:
    return json.dumps(text if len(text) <= _LONG_MESSAGE else text[:_LONG_MESSAGE] + "...", ensure_ascii=False)
