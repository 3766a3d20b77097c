"""What was wrong, by path."""

from collections.abc import Callable

import pytest

from toolyard.model.errors import InvalidInput


def problems(read: Callable[..., object], *given: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        read(*given)
    return {problem.path: problem.sentence for problem in caught.value.problems}
