"""What every file of this folder needs: the programs, the model, and a look at what they are."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import server  # noqa: E402


def pytest_report_header():
    return f"programs: {server.BIN}\nmodel: {server.MODEL}\nreference data: {server.SHARED}"


def pytest_collection_modifyitems(items):
    if not server.MODEL.exists():
        skip = pytest.mark.skip(reason=f"no model at {server.MODEL}: run deploy/fetch-model or set PACELINE_TEST_MODEL")
        for item in items:
            item.add_marker(skip)
