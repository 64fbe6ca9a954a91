"""Which state of the code a run was made from, as git and the CI job tell; one git process, and only when results are saved."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_BRANCH_OF_THE_JOB = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
"""CI jobs check out a commit, not a branch; the first that is set: a pull request's branch, GitHub's, GitLab's."""
_TIMEOUT_S = 20


def revision(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """``commit``, ``branch``, and ``dirty`` where tracked files were changed; what cannot be told is left out.

    Args:
        folder: Within the checkout.
        environ: Of the process.
    """
    branch = next(filter(None, map(environ.get, _BRANCH_OF_THE_JOB)), None)
    found = {"branch": branch} if branch else {}
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    quiet = {**environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S, env=quiet)  # noqa: S603 - git, with our own words
    except (OSError, subprocess.SubprocessError):
        return found
    for line in done.stdout.splitlines():
        if line.startswith("# branch.oid ") and "(initial)" not in line:
            found["commit"] = line.split()[2]
        elif line.startswith("# branch.head ") and "(detached)" not in line:
            found.setdefault("branch", line.split(maxsplit=2)[2])
        elif not line.startswith("#"):
            found["dirty"] = "yes"
    return found
