"""Adds `--thorough`."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="ten times as many random models for the planner, and as many runs for `spawn`",
    )
