"""One sentence a line, and nothing too wide or too long."""

from pathlib import Path

import pytest

from tools.check_lines import check_page, check_pins, main


def findings(text: str) -> list[tuple[int, str]]:
    return list(check_page(text))


@pytest.mark.parametrize(
    "page",
    [
        "One sentence.\nAnother one.\n",
        "# A heading. With a dot\n",
        "A list:\n\n- one thing\n- another thing:\n  what hangs below it.\n",
        "See e.g. FSDP, i.e. `torch.distributed.fsdp`, vs. DDP.\n",
        "The value of `a.b. C` is shown in [the docs](https://example.org/a.B).\n",
        "| a. B | c |\n| --- | --- |\n",
        "---\nkernelspec:\n  name: x. Y\n---\n\nText.\n",
        "```text\nTwo. Sentences. In a block\nthat goes on\n```\n",
        ":::{admonition} Predict. Now\n:class: tip\nHow many?\n:::\n",
        "Rank\n: One process of the group.\n",
        "rank\n  One process of the group.\n",
        "Torch 2.2.2 is fixed here.\n",
        "> Quoted words.\n> And more of them.\n",
    ],
)
def test_accepts_one_sentence_a_line(page: str) -> None:
    assert findings(page) == []


def test_finds_the_second_sentence() -> None:
    assert findings("Fine.\n\nOne. Two here.\n") == [
        (3, "two sentences: the second starts at 'Two here.'")
    ]


def test_finds_a_sentence_that_starts_with_code() -> None:
    (finding,) = findings("One. `two` is code.\n")
    assert finding[0] == 1


def test_finds_a_sentence_that_goes_on() -> None:
    assert findings("A sentence that\ngoes on.\n") == [
        (1, "the sentence goes on in the next line: one sentence, one line")
    ]


def test_finds_a_sentence_that_goes_on_in_a_list() -> None:
    (finding,) = findings("- A sentence that\n  goes on.\n")
    assert finding[0] == 1


def test_names_the_wide_line_of_a_cell() -> None:
    page = "```{code-cell} python\n:pin: x\n" + "x" * 80 + "\n" + "x" * 81 + "\n```\n"
    assert findings(page) == [(4, "81 columns of code: at most 80 fit on the page")]


def test_counts_the_lines_of_a_cell_without_its_options() -> None:
    short = "```{code-cell} python\n:pin: x\n" + "x = 1\n" * 30 + "```\n"
    long = "\n```{code-cell} python\n:pin: x\n" + "x = 1\n" * 31 + "```\n"
    assert findings(short) == []
    assert findings(long) == [(2, "the cell has 31 lines: at most 30 are read as one thing")]


def test_names_the_wide_line_of_a_pin() -> None:
    (finding,) = check_pins("[pins.x]\ntext = '''\n" + "x" * 81 + "\n'''\n")
    assert finding[0] == 3


def test_reports_file_and_line_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("One. Two.\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"{page}:1: two sentences")


def test_takes_pin_files_and_no_other_toml(tmp_path: Path) -> None:
    (tmp_path / "_pins").mkdir()
    wide = f"text = '{'x' * 80}'\n"
    (tmp_path / "settings.toml").write_text(wide)
    assert main([str(tmp_path)]) == 0
    (tmp_path / "_pins" / "page.toml").write_text(wide)
    assert main([str(tmp_path)]) == 1


def test_a_page_in_another_encoding_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_bytes("One.\nCafé.\n".encode("latin-1"))
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{page}:2: it is not UTF-8: save it as UTF-8\n"
