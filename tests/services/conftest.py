"""What the tests of the services share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real filings and right values that lies beside a checkout, where there is one."""
    folder = Path(__file__).parents[2].parent / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of real filings is not beside this checkout")
    return folder
