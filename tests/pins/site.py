"""Build a tiny site the way a contributor does, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SITES = Path(__file__).parents[1] / "sites"
SOURCES = Path(__file__).parents[2] / "src"
TIMEOUT_S = 100.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and all that it printed."""

    status: int
    printed: str

    def finding(self, start: str) -> str:
        """Return the one finding that starts so, with the lines that belong to it."""
        lines = self.printed.splitlines()
        found = [number for number, line in enumerate(lines) if line.startswith(start)]
        assert len(found) == 1, f"{len(found)} findings start with {start}:\n{self.printed}"
        end = found[0] + 1
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end]):
            end += 1
        return "\n".join(lines[found[0] : end])


@dataclass(frozen=True, slots=True)
class Site:
    """A copy of a tiny site, with kernels that need no torch."""

    root: Path

    @classmethod
    def copy(cls, case: str, root: Path) -> Site:
        """Copy the site ``tests/sites/<case>``."""
        shutil.copytree(SITES / case, root, dirs_exist_ok=True)
        shutil.copy(SITES / "conf.py", root)
        site = cls(root.resolve())
        site.make_kernel("tiny", "2.2.2", "cu121")
        return site

    def save(self, snapshot: Path) -> None:
        """Keep the site as it is now, with all that was built of it."""
        shutil.copytree(self.root, snapshot)

    def restore(self, snapshot: Path) -> None:
        """Go back to a snapshot, at the same path: elsewhere Sphinx would read all pages again."""
        shutil.rmtree(self.root)
        shutil.copytree(snapshot, self.root)

    def make_kernel(self, name: str, torch: str, build: str) -> None:
        """Write a kernelspec that claims to run on a torch, and runs this very Python."""
        folder = self.root / "jupyter" / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {
            "argv": [*launch, "--log-level=ERROR"],
            "display_name": name,
            "language": "python",
            "env": {"TINY_BUILD": build},
            "metadata": {"fsdp_demo": {"torch": torch, "build": build}},
        }
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")

    def break_kernel(self, name: str) -> None:
        """Make a kernel that can't be started: a page that needs it would be reported."""
        path = self.path(f"jupyter/kernels/{name}/kernel.json")
        spec = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**spec, "argv": ["no-such-program"]}), encoding="utf-8")

    def build(self, *options: str) -> Outcome:
        """Build the site into ``build/html``."""
        sphinx = ["sphinx", "-q", "-c", ".", "-b", "html", "-W", "--keep-going", *options]
        return self._run(*sphinx, "-d", "build/doctrees", "docs", "build/html")

    def pins(self, *arguments: str, ci: bool = False) -> Outcome:
        """Run the command that shows and accepts what is pending."""
        return self._run("fsdp_demo.pins", *arguments, env={"CI": "true"} if ci else {})

    def path(self, name: str) -> Path:
        """Return the path of one of the site's files."""
        return self.root / name

    def read(self, name: str) -> str:
        """Read one of the site's files."""
        return self.path(name).read_text(encoding="utf-8")

    def add(self, name: str, text: str) -> None:
        """Write a text at a file's end."""
        with self.path(name).open("a", encoding="utf-8") as file:
            file.write(text)

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands once in a file."""
        text = self.read(name)
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        self.path(name).write_text(text.replace(old, new), encoding="utf-8")

    def _run(self, *arguments: str, env: dict[str, str] | None = None) -> Outcome:
        inherited = {key: value for key, value in os.environ.items() if key != "CI"}
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env={
                **inherited,
                "JUPYTER_PATH": str(self.root / "jupyter"),
                "PYTHONPATH": str(SOURCES),
                "NO_COLOR": "1",
                **(env or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
            check=False,
        )
        return Outcome(done.returncode, done.stdout)
