"""The verdict of a gate as workflow commands, which GitHub shows as annotations."""

from __future__ import annotations

from ..core.formatting import clean_text
from ..judge.verdicts import WARNING, Status, Verdict, Verdicts
from .interface import Layout
from .say_verdicts import headline, loss_sentence, shown_baseline, shown_values

_LEVELS = {Status.PASSED: "notice", Status.FAILED: "error", Status.INCONCLUSIVE: "warning"}
_LEVELS_OF_ALL = {**_LEVELS, Status.INCONCLUSIVE: "error"}


def paint(result: Verdicts, layout: Layout) -> str:
    """One annotation for the whole, one for each limit that was not met and each warning.

    Notes are in the job summary: as annotations they would stand beside every green run.
    """
    lines = [workflow_command(_LEVELS_OF_ALL[result.status], "nsysoverlap gate", headline(result))]
    lines += [_annotation(v) for v in result.verdicts if v.status is not Status.PASSED]
    if result.losses:
        lines.append(workflow_command("error", "nsysoverlap: lost most", loss_sentence(result)))
    warnings = [note for note in result.notes if note.startswith(WARNING)]
    lines += [
        workflow_command("warning", "nsysoverlap: the traces", w[len(WARNING) :]) for w in warnings
    ]
    return "\n".join(lines) + "\n"


def _annotation(verdict: Verdict) -> str:
    measured, limit, _ = shown_values(verdict)
    text = f"{measured}, limit {verdict.op} {limit}"
    if verdict.baseline is not None:
        text += f", baseline {shown_baseline(verdict)}"
    details = " ".join(part for part in (verdict.where, verdict.reason) if part)
    title = f"nsysoverlap {verdict.name}: {verdict.status.value}"
    return workflow_command(_LEVELS[verdict.status], title, f"{text}. {details}".strip())


def workflow_command(level: str, title: str, message: str) -> str:
    """One annotation of a level; title and message are escaped as GitHub's runner wants them."""
    return f"::{level} title={_property(clean_text(title))}::{_data(clean_text(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
