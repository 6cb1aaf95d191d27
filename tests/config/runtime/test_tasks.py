from __future__ import annotations

from config.runtime.tasks import Backoff


def test_backoffs_grow_to_a_bound_and_end_with_a_success():
    backoff = Backoff(1, 60, 3600)
    lengths = []
    for _ in range(9):
        backoff.failed()
        lengths.append(round(backoff.left_s))
    assert lengths == [1, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    backoff.succeeded()
    assert backoff.left_s == 0
