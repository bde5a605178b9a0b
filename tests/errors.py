"""What an error message owes its reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def fails(call: Callable[[], Any], *fragments: str, error: type[Exception] | tuple = (ValueError, TypeError)) -> None:
    """The call raises one line that holds every fragment."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message, message
