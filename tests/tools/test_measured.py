"""A page states what was measured, or the build says where it does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PAGE = """\
# Cells by `spawn` take {measured}`cell-2-spawn`

On {measured-on}`cores` cores it is {measured-times}`cell-2-spawn-to-script` times as quick.

```{measured-scale} a cell by each launcher
spawn: `spawn`
script: a script
```

```{measured-table}
cell-*
memory-spawn
```
"""


def timed(value: float) -> dict[str, object]:
    spread = {"least": value / 2, "most": value * 2, "rounds": 3}
    return {"what": "a cell by `spawn`", "value": value, "unit": "s", **spread}


FIGURES = {
    "measured-on": {"torch": "2.2.2", "cores": "2"},
    "figures": {
        "cell-2-spawn": timed(0.11),
        "cell-4-spawn": timed(0.16),
        "cell-2-script": timed(4.0),
        "cell-4-script": timed(6.0),
        "cell-2-spawn-to-script": {
            "what": "a share",
            "value": 0.0275,
            "unit": "ratio",
            "at_most": 0.03,
            "rounds": 3,
        },
        "memory-spawn": {"what": "a rank", "value": 24.0, "unit": "MB", "at_most": 20.0},
    },
    "missing": {"cell-2-accelerate": {"what": "…", "reason": "No module named 'accelerate'"}},
}


class Site:
    """A site of one page, built where no torch is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.page = root / "docs" / "index.md"
        self.file = root / "docs" / "_measured" / "bench.json"
        self.file.parent.mkdir(parents=True)
        kernel = root / "jupyter" / "kernels" / "tiny"
        kernel.mkdir(parents=True)
        spec = {"argv": [sys.executable], "display_name": "tiny", "language": "python"}
        metadata = {"fsdp_demo": {"torch": "2.2.2", "build": "cpu"}}
        (kernel / "kernel.json").write_text(json.dumps({**spec, "metadata": metadata}))
        (root / "conf.py").write_text(
            f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            'extensions = ["myst_nb", "fsdp_demo.pins", "fsdp_demo.prose", "tools.measured"]\n'
            'nb_render_plugin = "pins"\nmeasured_kernel = "tiny"\nprose_checked = ["index"]\n'
        )
        (root / "docs" / "_numbers.toml").write_text("everywhere = []\n[pages]\n")
        self.page.write_text(PAGE)
        self.file.write_text(json.dumps(FIGURES, indent=2))

    def build(self) -> tuple[int, list[str], str]:
        """Return the status, the warnings and the page."""
        run = subprocess.run(
            [sys.executable, "-m", "sphinx", "-c", ".", "-W", "--keep-going", "docs", "html"],
            cwd=self.root,
            env=os.environ | {"JUPYTER_PATH": str(self.root / "jupyter"), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        warnings = [line for line in run.stderr.splitlines() if "WARNING" in line]
        html = self.root / "html" / "index.html"
        return run.returncode, warnings, html.read_text() if html.exists() else run.stderr


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


def test_sentence_table_and_figure_come_from_the_file(site: Site) -> None:
    status, warnings, html = site.build()
    assert (status, warnings) == (0, [])
    assert 'take <span class="fact">0.11 s</span>' in html
    assert 'On <span class="fact">2</span> cores' in html
    assert '<span class="fact">36</span> times as quick' in html
    assert "<p>0.055 to 0.22</p>" in html
    assert "<p>0.03</p>\n<p>met</p>" in html
    assert "<p>20 MB</p>\n<p>not met</p>" in html
    assert '<figure class="fsdp-figure"><svg' in html
    words = "a script: 2 ranks 4 s (2 s to 8 s), 4 ranks 6 s (3 s to 12 s)"
    assert words in html  # the figure's text alternative


def test_a_changed_file_changes_the_page_on_the_next_build(site: Site) -> None:
    site.build()
    site.file.write_text(json.dumps(FIGURES).replace("0.11", "0.77"))
    assert 'take <span class="fact">0.77 s</span>' in site.build()[2]


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (
            "{measured}`cell-2-spawn`",
            "{measured}`cell-2-spwan`",
            "docs/index.md:1: WARNING: no figure 'cell-2-spwan' was measured; did you mean",
        ),
        (
            "memory-spawn",
            "memory-fork",
            "docs/index.md:12: WARNING: no figure 'memory-fork' was measured",
        ),
        (
            "cell-*",
            "cells-*",
            "docs/index.md:11: WARNING: no figure's name is like 'cells-*' [measured.name]",
        ),
        (
            "script: a script",
            "torchrun: a command",
            "docs/index.md:7: WARNING: no figure 'cell-2-torchrun' was measured",
        ),
        (
            "{measured-on}`cores`",
            "{measured-on}`host`",
            "docs/index.md:3: WARNING: what 'host' was is not in the file; it has torch, cores",
        ),
        (
            "{measured-times}`cell-2-spawn-to-script`",
            "{measured-times}`cell-2-spawn`",
            "docs/index.md:3: WARNING: 'cell-2-spawn' is no ratio [measured.name]",
        ),
        (
            "{measured}`cell-2-spawn`",
            "{measured}`cell-2-accelerate`",
            "docs/index.md:1: WARNING: 'cell-2-accelerate' was not measured: No module named",
        ),
        (
            "On {measured-on}`cores` cores",
            "On 2 cores",
            "docs/index.md:3: WARNING: '2' in “…On 2 cores",
        ),
    ],
)
def test_a_page_can_state_nothing_else(site: Site, old: str, new: str, warning: str) -> None:
    assert PAGE.count(old) == 1
    site.page.write_text(PAGE.replace(old, new))
    status, warnings, _ = site.build()
    assert status == 1
    (line,) = warnings
    assert warning in line


def test_figures_of_another_torch_fail_the_build_at_their_line(site: Site) -> None:
    site.file.write_text(json.dumps(FIGURES, indent=2).replace("2.2.2", "2.1.0"))
    status, warnings, _ = site.build()
    assert status == 1
    (line,) = warnings
    assert "docs/_measured/bench.json:3: WARNING: measured on torch 2.1.0, and 'tiny' runs" in line
    assert "run `nox -s bench -- --json docs/_measured/bench.json` [measured.torch]" in line


@pytest.mark.parametrize(
    ("text", "line"),
    [(None, 1), ('{\n"figures": {{', 2), ('{"figures": {"a": {}}, "missing": {}}', 1), ("[]", 1)],
)
def test_a_file_that_is_none_fails_the_build_once(site: Site, text: str | None, line: int) -> None:
    """Its pages say nothing more of it."""
    if text is None:
        shutil.rmtree(site.file.parent)
    else:
        site.file.write_text(text)
    status, warnings, _ = site.build()
    assert status == 1
    (warning,) = warnings
    assert f"docs/_measured/bench.json:{line}: WARNING: it is no" in warning


def test_a_kernel_that_is_gone_fails_the_build(site: Site) -> None:
    shutil.rmtree(site.root / "jupyter")
    status, warnings, _ = site.build()
    assert status == 1
    assert "no kernel 'tiny' is there to compare it with" in warnings[0]
