"""A real page is built against a tiny installed torch, and its quotations are checked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: tiny
---

# A page

```{torch-quote} torch.api.Strategy
does not ``reshard`` them after
the forward
```

```{torch-quote} torch.api.Strategy
does reshard them
```

```{torch-quote} torch.api.Missing
anything
```
"""

PLAIN_PAGE = """\
# A page without a kernel

```{torch-quote} torch.api.Strategy
does not ``reshard`` them after the forward
```

```{torch-quote} torch.api.Strategy
:kernel: tiny
does not ``reshard`` them after the forward
```

```{torch-quote} torch.api.Strategy
:kernel: unheard-of
does not ``reshard`` them after the forward
```
"""

TORCH = '''\
class Strategy:
    """A strategy.

    It does not ``reshard`` them
    after the forward.
    """
'''


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, int]:
    """Build the two pages once; return what Sphinx said, the HTML folder and the exit status."""
    root = tmp_path_factory.mktemp("site")
    packages = root / "packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "__init__.py").write_text("")
    (packages / "torch" / "api.py").write_text(TORCH)
    info = packages / "torch-2.2.2+cu121.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.2.2+cu121\n")
    kernel = root / "jupyter" / "kernels" / "tiny"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        json.dumps(
            {
                "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "tiny",
                "language": "python",
                "env": {"PYTHONPATH": str(packages)},
            }
        )
    )
    docs = root / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(PAGE)
    (docs / "plain.md").write_text(PLAIN_PAGE)
    (root / "conf.py").write_text(
        'extensions = ["myst_nb", "fsdp_demo.citations"]\nnb_execution_mode = "off"\n'
        'suppress_warnings = ["toc.not_included"]\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-c", ".", "-W", "--keep-going", "docs", "html"],
        cwd=root,
        env=os.environ | {"JUPYTER_PATH": str(root / "jupyter"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return run.stderr, root / "html", run.returncode


def test_the_build_fails_when_a_quotation_does_not_hold(build: tuple[str, Path, int]) -> None:
    assert build[2] == 1


def test_changed_words_are_named_with_page_line_and_the_place_to_look(
    build: tuple[str, Path, int],
) -> None:
    assert (
        "docs/index.md:14: WARNING: torch 2.2.2 does not say this in torch.api.Strategy"
        " (torch/api.py, line 1 on): 'does reshard them'; quote what stands there" in build[0]
    )


def test_an_object_that_is_gone_is_named_with_page_and_line(build: tuple[str, Path, int]) -> None:
    assert (
        "docs/index.md:18: WARNING: torch.api.Missing can't be quoted: torch/api.py defines no"
        " Missing" in build[0]
    )


def test_a_page_without_a_kernel_says_what_to_do(build: tuple[str, Path, int]) -> None:
    assert "docs/plain.md:3: WARNING:" in build[0]
    assert "the page names no kernel in its front matter; give the option :kernel:" in build[0]


def test_an_unknown_kernel_is_one_line(build: tuple[str, Path, int]) -> None:
    assert "docs/plain.md:12: WARNING:" in build[0]
    assert "no kernel 'unheard-of' is installed" in build[0]
    assert "Traceback" not in build[0]


def test_a_true_quotation_shows_words_version_and_a_link_to_their_line(
    build: tuple[str, Path, int],
) -> None:
    for page in ("index.html", "plain.html"):
        html = (build[1] / page).read_text()
        assert html.count('<blockquote class="torch-quote">') == 1
        assert "github.com/pytorch/pytorch/blob/v2.2.2/torch/api.py#L4" in html
        assert "in torch 2.2.2" in html
        assert '<span class="pre">reshard</span>' in html
