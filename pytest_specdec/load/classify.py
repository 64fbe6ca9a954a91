"""Classes for logs without any: code, structured or chat, by rules that a person can check.

The rules look at the text of the last message that is not the assistant's, in this order; the first that holds decides.

1. **code**: a fence of three backticks, or a line that looks like source text (``def f(``, ``#include <``, ``SELECT ... FROM``, ...).
2. **structured**: asks for a form that programs or tables have (JSON, YAML, XML, CSV, a table, a schema, a numbered list, ...) and
   names no programming work.
3. **code**: names programming work: a language together with a verb or thing of programming, or such a thing that means nothing
   else (unit test, regex, stack trace, refactor, ...).
4. **chat**: everything else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_specdec.load.prompt_reader import text_of

if TYPE_CHECKING:
    from pytest_specdec.load.prompt_reader import Prompt

CLASSES = ("code", "structured", "chat")

_SOURCE = re.compile(
    r"""```
    | ^\s*(?:async\s+)?def\s+\w+\s*\(
    | ^\s*class\s+\w+\s*[:({]
    | ^\s*(?:from\s+[\w.]+\s+)?import\s+[\w.{*]+\s*;?\s*$
    | ^\s*(?:export\s+)?(?:async\s+)?function\s*\w*\s*\(
    | ^\s*(?:const|let|var)\s+\w+\s*=
    | ^\s*\#include\s*[<"]
    | ^\s*(?:public|private|protected)\s+[\w<>\[\]]+\s+\w+
    | ^\s*(?:func|fn)\s+\w+\s*\(
    | ^\s*(?:for|while|if)\s*\(.*\)\s*\{
    | \bSELECT\b.{1,200}\bFROM\b
    | ^\s*(?:\$|>>>)\s+\w
    """,
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_LANGUAGE = (
    r"(?:python|javascript|typescript|java|c\+\+|c\#|golang|rust|ruby|php|perl|kotlin|swift|scala|haskell|bash|shell|powershell"
    r"|sql|html|css|react|numpy|pandas|pytorch|django|flask)"
)
_WORK = (
    r"(?:functions?|methods?|class(?:es)?|scripts?|code|programs?|quer(?:y|ies)|loops?|decorators?|modules?|snippets?|statements?"
    r"|one-liners?|commands?|generators?|lambdas?|variables?|structs?|types?)"
)
_PROGRAMMING = re.compile(
    rf"""\b{_LANGUAGE}(?!\w)(?:\W+\w+){{0,4}}\W+{_WORK}\b
    | \b{_WORK}\W+(?:\w+\W+){{0,8}}?(?:in|using|with)\W+(?:\w+\W+)?{_LANGUAGE}(?!\w)
    | \b(?:write|implement|debug|fix|refactor|optimi[sz]e|test|translate|rewrite)\b(?:\W+\w+){{0,6}}?\W+(?:functions?|methods?|scripts?|code|bugs?|
      {_LANGUAGE})(?!\w)
    | \b(?:unit\ tests?|pytest|regex(?:es)?|regular\ expressions?|stack\ ?trace|traceback|refactor|type\ hints?|docstrings?
      |source\ code|compil(?:e|er)\ errors?|pull\ request|git\ \w+|dockerfile|makefile|api\ endpoint|big-o)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FORM = re.compile(
    r"""\b(?:json|jsonl|yaml|xml|toml|csv|tsv|ini\ file|markdown\ table|html\ table|key[-\ ]value|schema|iso\ 8601|bullet(?:ed)?\ (?:list|points?)
      |numbered\ (?:list|lines|steps)|comma[-\ ]separated)\b
    | \b(?:table|list|line|row|column|field|entry)s?\b(?:\W+\w+){0,6}?\W+(?:columns?|rows?|fields?|keys?|headers?)\b
    | \b(?:as|in|into|make|create|write|fill|give)\b(?:\W+\w+){0,3}?\W+(?:a|an|this|the)\W+(?:\w+\W+)?(?:table|form|checklist)\b
    | \b(?:one|each)\b(?:\W+\w+){0,3}?\W+(?:per|on\ (?:its|a)\ own|on\ a\ new)\W+line\b
    | \{\s*"\w+"\s*:
    """,
    re.IGNORECASE | re.VERBOSE,
)


def class_of(prompt: Prompt) -> str:
    """``code``, ``structured`` or ``chat``."""
    text = asked_text(prompt)
    if _SOURCE.search(text):
        return "code"
    programming = _PROGRAMMING.search(text)
    if _FORM.search(text) and not programming:
        return "structured"
    return "code" if programming else "chat"


def asked_text(prompt: Prompt) -> str:
    """What the rules look at: the last message that is not the assistant's or the system's."""
    if prompt.messages is None:
        return prompt.prompt or ""
    for message in reversed(prompt.messages):
        if message["role"] not in ("assistant", "system"):
            return text_of(message.get("content"))
    return prompt.text
