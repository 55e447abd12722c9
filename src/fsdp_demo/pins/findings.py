"""What can be wrong with a page: each kind with the sentence that a contributor reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Self


class Kind(Enum):
    """The kinds of finding: the warning's subtype (``pins.drift``), and its sentence."""

    DRIFT = "drift", "The cell printed something else than its pin."
    MISSING = "missing", "The cell's label has no pin."
    MISSING_BUILD = "missing-build", "The pin has no value for this build of torch."
    OBSOLETE = "obsolete", "No cell of the page names this pin."
    OBSOLETE_FILE = "obsolete-file", "The pin file belongs to no page."
    OTHER_TORCH = "other-torch", "The page's pins were taken on another torch version."
    BROKEN_FILE = "broken-file", "The pin file can't be read."

    NO_PIN = "no-pin", "The cell has neither a pin nor the tag `unpinned`."
    TWO_MINDS = "two-minds", "The cell has a pin and the tag `unpinned`: keep one of them."
    ERROR_UNPINNED = "error-unpinned", "A cell tagged `raises-exception` needs a pin of its error."
    BAD_LABEL = "bad-label", "A label is lower-case words and digits joined by hyphens."
    DUPLICATE = "duplicate", "Another cell of the page has the same label."
    UNKNOWN_OPTION = "unknown-option", "The cell has an option that nothing reads."
    BAD_OPTION = "bad-option", "The cell has an option with a value that can't be used."
    UNKNOWN_TAG = "unknown-tag", "The cell has a tag that nothing reads."
    WIDE_CODE = "wide-code", "A line of code is over 80 columns."
    WIDE_OUTPUT = "wide-output", "The cell printed a line of over 80 columns."
    PAGE_WITHOUT_PIN = "page-without-pin", "The page has code cells and no pin."
    PAGE_WITHOUT_CELL = "page-without-cell", "The page must have a pinned code cell and has none."
    NOT_COMPARED = "not-compared", "No comparison with the plain model runs this call of FSDP."
    NO_COMPARISON = "no-comparison", "The lesson compares no program with the plain model."
    COMPARED_TWICE = "compared-twice", "Another comparison of the page has the same name."
    NO_ALTERNATIVE = "no-alternative", "The picture has no text alternative."
    UNRUN_BLOCK = "unrun-block", "Nothing runs this Python block, and no reason is given."
    NESTED_CELL = "nested-cell", "MyST-NB doesn't run this code cell."

    FRONT_MATTER = "front-matter", "The page's front matter can't be read."
    OPEN_FENCE = "open-fence", "Nothing closes the fence that opens here."

    RAISED = "raised", "The cell raised an error."
    NOT_RAISED = "not-raised", "The cell is tagged `raises-exception` and raised nothing."
    STDERR = "stderr", "The cell printed to stderr."
    TIMEOUT = "timeout", "The cell ran out of time."
    NOT_RUN = "not-run", "The cell did not run."
    STOPPED = "stopped", "The page's run was stopped."
    NOT_EXECUTED = "not-executed", "The page could not be executed."
    UNKNOWN_KERNEL = "unknown-kernel", "The page's kernel doesn't exist."
    UNKNOWN_SETTING = "unknown-setting", "The kernel doesn't say what torch it runs on."

    slug: str
    sentence: str

    def __new__(cls, slug: str, sentence: str) -> Self:
        """Make the slug the member's value."""
        member = object.__new__(cls)
        member._value_ = slug
        member.slug = slug
        member.sentence = sentence
        return member


PENDING = frozenset(
    {
        Kind.DRIFT,
        Kind.MISSING,
        Kind.MISSING_BUILD,
        Kind.OBSOLETE,
        Kind.OBSOLETE_FILE,
        Kind.OTHER_TORCH,
    }
)
"""What accepting the page settles."""

BLOCKING = frozenset(
    {
        Kind.BROKEN_FILE,
        Kind.BAD_LABEL,
        Kind.DUPLICATE,
        Kind.FRONT_MATTER,
        Kind.OPEN_FENCE,
        Kind.RAISED,
        Kind.NOT_RAISED,
        Kind.TIMEOUT,
        Kind.NOT_RUN,
        Kind.STOPPED,
        Kind.NOT_EXECUTED,
        Kind.UNKNOWN_KERNEL,
        Kind.UNKNOWN_SETTING,
    }
)
"""What must be mended before the pin, or the page, can be accepted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where it stands, and what to do."""

    kind: Kind
    line: int
    detail: str = ""
    """What was found, in one or more lines."""
    advice: str = ""
    """What to do, in one line."""
    label: str | None = None
    path: str | None = None
    """The file, where it isn't the page."""

    @property
    def message(self) -> str:
        """The finding as text: a line, the details indented below, and what to do."""
        headline = f"{self.label}: {self.kind.sentence}" if self.label else self.kind.sentence
        if self.detail and "\n" not in self.detail:
            headline, below = f"{headline} {self.detail}", []
        else:
            below = self.detail.splitlines()
        if self.advice:
            below.append(self.advice)
        return "\n".join([headline, *(f"    {line}".rstrip() for line in below)])
