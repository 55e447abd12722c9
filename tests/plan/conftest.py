"""Adds `--thorough`, for a run of this folder."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="hold the planner to FSDP on ten times as many random models",
    )
