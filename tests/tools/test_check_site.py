"""What a page loads by itself comes from the site."""

from pathlib import Path

import pytest

from tools.check_site import check_site


def findings(site: Path, head: str = "", body: str = "") -> list[str]:
    page = f"<html>\n<head>{head}</head>\n<body>{body}</body>\n</html>\n"
    (site / "index.html").write_text(page)
    return list(check_site(site))


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        '<script src="//cdn.example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img src="https://example.org/x.png">',
        '<img srcset="a.png 1x, https://example.org/b.png 2x">',
        '<iframe src="http://example.org"></iframe>',
        '<p style="background: url(https://example.org/x.png)">',
        "<style>@import 'https://example.org/x.css';</style>",
        '<svg><use href="https://example.org/x.svg#a"></use></svg>',
        '<script src="/_static/x.js"></script>',
    ],
)
def test_finds_what_is_not_of_the_site(tmp_path: Path, html: str) -> None:
    (finding,) = findings(tmp_path, body=html)
    assert finding.startswith(f"{tmp_path}/index.html:3: loads ")


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://example.org">a link that is followed</a>',
        '<link rel="canonical" href="https://example.org/index.html">',
        '<script src="_static/x.js"></script>',
        '<img src="data:image/png;base64,AAAA">',
        '<a href="/">',
    ],
)
def test_accepts_what_is_of_the_site_or_only_linked(tmp_path: Path, html: str) -> None:
    assert findings(tmp_path, head=html) == []


def test_finds_what_a_style_sheet_loads(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@font-face { src: url('https://example.org/x.woff2') }")
    (finding,) = findings(tmp_path)
    assert "x.css: loads https://example.org/x.woff2 from another host" in finding


def test_a_site_without_pages_is_a_finding(tmp_path: Path) -> None:
    assert list(check_site(tmp_path)) == [f"{tmp_path}: no page is there"]
