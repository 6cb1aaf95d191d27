"""One test for many values, as starting a test takes longer than most values do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def each(
    names: str | Sequence[str], values: Iterable[Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Works as `pytest.mark.parametrize`, in one test without shared state, which fails at the first wrong value."""
    split = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    cases = [dict(zip(split, one if len(split) > 1 else (one,), strict=True)) for one in values]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in split]

        def run(*args: Any, **kwargs: Any) -> None:
            assert cases
            for case in cases:
                with _naming(case):
                    test(*args, **kwargs, **case)

        async def run_async(*args: Any, **kwargs: Any) -> None:
            assert cases
            for case in cases:
                with _naming(case):
                    await test(*args, **kwargs, **case)

        wrapper = functools.wraps(test)(run_async if inspect.iscoroutinefunction(test) else run)
        wrapper.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        del wrapper.__wrapped__  # type: ignore[attr-defined]
        return wrapper

    return decorate


@contextmanager
def _naming(case: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"with {', '.join(f'{name}={value!r}' for name, value in case.items())}")
        raise
