"""What every floor does in the same way: waking a task, waiting longer after each failure, locks, replacing files."""

from __future__ import annotations
