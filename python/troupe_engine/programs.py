"""The commands of the wheel: they start the programs that are in the package."""

import os
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def troupe() -> None:
    """Becomes the program."""
    program = _FOLDER / "bin/troupe"
    try:
        os.execv(program, ["troupe", *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit(f"troupe: error: {program} is missing: it comes with the wheel that "
                 "scripts/package makes; a checkout has it in build/release/bin")


def tokenize() -> None:
    """Becomes the tokenizer."""
    script = str(_FOLDER / "share/troupe/tokenize/tokenize")
    os.execv(sys.executable, [sys.executable, script, *sys.argv[1:]])
