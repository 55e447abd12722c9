"""The directive ``torch-quote``."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from fsdp_demo.citations.quotation import find_words
from fsdp_demo.citations.source import find_object
from fsdp_demo.pins.notes import could_not_run

logger = logging.getLogger(__name__)

SOURCE_URL = "https://github.com/pytorch/pytorch/blob/v{version}/{path}#L{line}"

_MARKUP = re.compile(r"(?::\w+:)?`+~?([^`]+?)`+|\*(\w[^*]*)\*")


@dataclass(frozen=True, slots=True)
class InstalledTorch:
    """The torch of one kernel: its version, and the folder its package lies in."""

    version: str
    site_packages: Path


@lru_cache(maxsize=8)
def find_torch(kernel: str) -> InstalledTorch:
    """Find the torch that a kernel's pages run on, by asking the kernel's own Python.

    Raises:
        LookupError: no such kernel, or its Python has no torch; the message says which.

    """
    try:
        spec = KernelSpecManager().get_kernel_spec(kernel)
    except NoSuchKernel:
        msg = f"no kernel {kernel!r} is installed; run nox -s docs, which makes it"
        raise LookupError(msg) from None
    ask = (
        "import importlib.metadata as m; d = m.distribution('torch');"
        "print(d.version.split('+')[0]); print(d.locate_file(''))"
    )
    run = subprocess.run(
        [spec.argv[0], "-c", ask],
        env=os.environ | spec.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if run.returncode:
        msg = f"kernel {kernel!r} has no torch to quote from"
        raise LookupError(msg)
    version, folder = run.stdout.splitlines()
    return InstalledTorch(version, Path(folder))


class TorchQuote(SphinxDirective):
    """Quote torch's own words, checked against the torch of the page's kernel.

    The argument is the dotted name of a class or function in the module that defines it; the
    content is the words. The option ``kernel`` names the kernel for a page that has none itself.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec | None] = {"kernel": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Look the words up, and build the quotation; without a match, warn at this line."""
        name = self.arguments[0]
        words = " ".join(" ".join(self.content).split())
        try:
            torch = find_torch(self._kernel())
            source = find_object(torch.site_packages, name)
        except LookupError as error:
            return self._refuse(f"{name} can't be quoted: {error}")
        line = find_words(source, words)
        if line is None:
            return self._refuse(
                f"torch {torch.version} does not say this in {name} ({source.path}, line"
                f" {source.first_line} on): {words!r}; quote what stands there"
            )
        url = SOURCE_URL.format(version=torch.version, path=source.path, line=line)
        attribution = nodes.attribution("", "", classes=["torch-quote-source"])
        attribution += nodes.literal("", name.rsplit(".", 1)[-1])
        attribution += nodes.Text(f" in torch {torch.version}, ")
        attribution += nodes.reference(
            "", f"{source.path}, line {line}", refuri=url, internal=False
        )
        quote = nodes.block_quote("", classes=["torch-quote"])
        quote += nodes.paragraph("", "", *_render_words(words))
        quote += attribution
        self.set_source_info(quote)
        return [quote]

    def _kernel(self) -> str:
        if "kernel" in self.options:
            return str(self.options["kernel"])
        # MyST-NB leaves its renderer on the document while the page is read, for directives to use.
        renderer = self.state.document.attributes.get("nb_renderer")
        metadata = renderer.renderer.nb_client.notebook.metadata if renderer else {}
        name = metadata.get("kernelspec", {}).get("name")
        if name is None:
            msg = "the page names no kernel in its front matter; give the option :kernel:"
            raise LookupError(msg)
        return str(name)

    def _refuse(self, message: str) -> list[nodes.Node]:
        if could_not_run(self.env):
            return []  # the page can't be executed, which is reported
        logger.warning(
            message,
            location=(self.env.docname, self.lineno),
            type="citations",
            subtype="quote",
        )
        return []


def _render_words(words: str) -> list[nodes.Node]:
    """Turn literals, roles and ``*emphasis*`` into nodes; all else stays as it is written."""
    rendered: list[nodes.Node] = []
    position = 0
    for match in _MARKUP.finditer(words):
        rendered.append(nodes.Text(words[position : match.start()]))
        literal = match[1] is not None
        rendered.append(
            nodes.literal("", match[1]) if literal else nodes.emphasis("", "", nodes.Text(match[2]))
        )
        position = match.end()
    rendered.append(nodes.Text(words[position:]))
    return rendered
