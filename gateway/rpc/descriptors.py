"""Claims descriptors 0 and 1 for the protocol, so that nothing else can ever touch it.

Owns one step of process start, taken before anything opens a file or starts a child. Afterwards:
the protocol's two ends are private descriptors above 2 that no child inherits; a read of 0, here or
in a child, meets end of file and never eats a request; whatever is printed to 1, here or in a child,
goes where 2 goes and never tears a frame; 0, 1 and 2 are open, so no later file can land on them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

_STDIN, _STDOUT, _STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ProtocolDescriptors:
    """The private ends of the pipe: both close-on-exec, blocking mode left as the parent set it."""

    input: int
    output: int


def claim_stdio() -> ProtocolDescriptors:
    """Take descriptors 0 and 1 away from the rest of the process; call it once, first thing.

    A descriptor that was closed at start counts as /dev/null: no input, output to nowhere.
    """
    _open_missing_descriptors()
    claimed = ProtocolDescriptors(input=os.dup(_STDIN), output=os.dup(_STDOUT))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _STDIN)
    os.close(null)
    os.dup2(_STDERR, _STDOUT)
    return claimed


def _open_missing_descriptors() -> None:
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() takes the lowest free number: this one, since those below are open by now.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
