#!/usr/bin/env bash
# Runs all tests that need no vLLM under every Python of the arguments that is found (on the PATH, or installed by pyenv):
#
#     scripts/test_versions.sh 3.10 3.12 3.13
#
# Each gets an environment in .venvs, unlocked on purpose: the newest dependencies that this Python can have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints the interpreter of a version; pyenv's own shims do not count, as they fail unless their version is selected.
find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

found=0
for version in "$@"; do
    python=$(find_python "$version")
    if [[ -z $python ]]; then
        echo "Python $version is not here: left out"
        continue
    fi
    found=$((found + 1))
    home=.venvs/$version
    if [[ ! -e $home/.installed || pyproject.toml -nt $home/.installed ]]; then
        echo "Installing the newest dependencies for Python $version ..."
        rm -rf "$home"
        "$python" -m venv "$home"
        "$home/bin/python" -m pip install --quiet --editable '.[fuzz,gpu]' jsonschema pytest-rerunfailures pytest-timeout pytest-xdist
        touch "$home/.installed"
    fi
    echo "== Python $version"
    "$home/bin/python" -m pytest tests --ignore=tests/e2e --numprocesses=2
done
if ((found == 0)); then
    echo "none of Python $* is here" >&2
    exit 1
fi
