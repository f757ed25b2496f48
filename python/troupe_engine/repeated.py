"""What a job that heals sends again, as it repeats steps."""

import copy
import json
from dataclasses import dataclass, field

from .answers import Event


@dataclass
class _Step:
    """The last step: of which the end has come, or what a monitor has found."""

    number: int = -1
    found: set[str] = field(default_factory=set)


class RepeatedLines:
    """Tells which lines of a stream were there before `repeat`: events of a step whose
    end had come, and findings."""

    def __init__(self) -> None:
        self._now: dict[str, _Step] = {}  # by phase
        self._before: dict[str, _Step] = {}

    def repeat(self) -> None:
        """The stream begins again, and steps may come again."""
        self._before = copy.deepcopy(self._now)

    def note(self, line: Event) -> bool:
        """Whether the line was there before."""
        kind = line["type"]
        if kind == "printed" or line.get("event") in ("epoch", "dropped"):
            return False
        step, phase = line["source"]["step"], line["source"]["phase"]
        now = self._now.setdefault(phase, _Step())
        before = self._before.get(phase, _Step())
        if kind == "event":
            if line["event"] == "step" and step > before.number:
                now.number = step
            return bool(step <= before.number)
        # Metrics measure times, so those of a repeated step may differ.
        text = kind if kind == "metrics" else json.dumps(line, sort_keys=True)
        if step < before.number or (step == before.number and text in before.found):
            return True
        if step > now.number:
            now.number, now.found = step, set()
        if step == now.number:
            now.found.add(text)
        return False
