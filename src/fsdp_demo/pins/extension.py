"""The Sphinx extension: review every page on every build, report, and record.

A page is read once and reviewed on every build, in ``env-updated``, from what is kept of it.  So
its findings come back on the second build, with ``-j 2``, on a cache hit, and when only its pin
file was changed; and accepting a pin needs no new run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import ConfigError
from sphinx.util import logging

from fsdp_demo.pins.blocks import NestedCell, find_unrun_blocks
from fsdp_demo.pins.files import find_bad_line, show_path
from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.notes import notes_of
from fsdp_demo.pins.pictures import find_mute_pictures
from fsdp_demo.pins.record import drop_records, record_path, write_record
from fsdp_demo.pins.render import PinParser
from fsdp_demo.pins.review import docname_of, find_obsolete_files, pin_path_of, review_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

_LOGGER = logging.getLogger(__name__)

# MyST-NB's warnings of what is reported here too, with the cell's line: an error or a timeout
# (a run that was stopped is always reported, see ran.py), and stderr.
_REPORTED_HERE = ("mystnb.exec", "mystnb.stderr")

# A finding of more lines is reported by its first and last ones: others are to be seen, too.
_FIRST_LINES, _LAST_LINES = 60, 20


def connect(app: Sphinx) -> dict[str, Any]:
    """Connect to a build's events."""
    app.setup_extension("myst_nb")
    app.add_config_value("pins_dir", "_pins", "", frozenset({str}))
    app.add_config_value("pins_record_dir", "", "", frozenset({str}))
    app.add_config_value("pins_required", [], "", frozenset({list, tuple}))
    app.add_source_parser(PinParser, override=True)
    app.add_directive("code-cell", NestedCell, override=True)
    app.connect("config-inited", _check_config)
    app.connect("env-purge-doc", _forget_page)
    app.connect("env-merge-info", _merge_pages)
    app.connect("env-before-read-docs", _check_encoding)
    app.connect("env-before-read-docs", _note_reading)
    app.connect("doctree-read", find_unrun_blocks)
    app.connect("doctree-read", find_mute_pictures)
    app.connect("env-updated", _review_pages)
    return {
        "env_version": 2,  # of what notes.py keeps
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }


def _check_config(_app: Sphinx, config: Config) -> None:
    """Refuse a setting under which no pin would be compared, and hush what is said twice."""
    if config.nb_render_plugin != "pins":
        raise ConfigError('fsdp_demo.pins needs nb_render_plugin = "pins" in conf.py')
    config.suppress_warnings = [*config.suppress_warnings, *_REPORTED_HERE]


def _forget_page(_app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    notes_of(env).forget(docname)


def _merge_pages(
    _app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
) -> None:
    notes_of(env).take(docnames, notes_of(other))


def _check_encoding(_app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """End a build with pages that are not UTF-8: Sphinx would crash, and name none of them."""
    broken = []
    for docname in docnames:
        path = env.doc2path(docname)
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            place = f"{show_path(path)}:{find_bad_line(error)}"
            broken.append(f"{place}: The page is not UTF-8: save it as UTF-8.")
    if broken:
        sys.exit("\n".join(broken))  # of any other error Sphinx would show a traceback


def _note_reading(app: Sphinx, _env: BuildEnvironment, docnames: list[str]) -> None:
    app.fsdp_demo_pins_reading = frozenset(docnames)  # type: ignore[attr-defined]


def _review_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Report what is wrong with any page, read in this build or not, and record what was read."""
    for docname in sorted(env.found_docs):
        path = show_path(env.doc2path(docname))
        for finding in _review_page(app, env, docname, path):
            _report(finding, path)
    for pin_path in find_obsolete_files(_pins_dir(app), env.found_docs):
        docname = docname_of(pin_path, _pins_dir(app))
        advice = (
            "If the page has a new name, give it to this file too."
            f" If it is gone for good: nox -s pins -- --accept {docname}"
        )
        _report(Finding(Kind.OBSOLETE_FILE, 1, advice=advice), show_path(pin_path))
    _record_pages(app, env)


def _review_page(app: Sphinx, env: BuildEnvironment, docname: str, path: str) -> Iterator[Finding]:
    notes, pins_dir = notes_of(env), _pins_dir(app)
    page = notes.page(docname)
    pin_path = pin_path_of(docname, pins_dir)
    found = review_page(page, path, pin_path, show_path(pin_path), app.config.pins_required)
    found += notes.found.get(docname, [])
    yield from sorted(found, key=lambda finding: (finding.path or "", finding.line))


def _report(finding: Finding, path: str) -> None:
    location = f"{show_path(finding.path) if finding.path else path}:{finding.line}"
    _LOGGER.warning(
        _shorten(finding.message), type="pins", subtype=finding.kind.slug, location=location
    )


def _shorten(message: str) -> str:
    lines = message.splitlines()
    more = len(lines) - _FIRST_LINES - _LAST_LINES
    if more <= 0:
        return message
    left_out = f"    … {more:,} lines are left out here: `nox -s pins` shows them."
    return "\n".join([*lines[:_FIRST_LINES], left_out, *lines[-_LAST_LINES:]])


def _record_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Write what the pages of this build printed; a record that was lost is written again."""
    record_dir, notes = _record_dir(app), notes_of(env)
    reading: frozenset[str] = getattr(app, "fsdp_demo_pins_reading", frozenset())
    for docname in env.found_docs:
        if docname in reading or not record_path(record_dir, docname).exists():
            write_record(record_dir, notes.page(docname), Path(env.doc2path(docname)))
    drop_records(record_dir, env.found_docs)


def _pins_dir(app: Sphinx) -> Path:
    return Path(app.srcdir, app.config.pins_dir)


def _record_dir(app: Sphinx) -> Path:
    configured = app.config.pins_record_dir
    return Path(app.confdir, configured) if configured else Path(app.outdir).parent / "pins"
