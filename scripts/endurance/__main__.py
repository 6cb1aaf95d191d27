"""The endurance harness: `python -m endurance torture|soak|fuzz|openclaw|commands ...`, and `fuzz pipe ...`."""

from __future__ import annotations

import sys

from endurance import command_kills, fuzz, fuzz_pipe, openclaw_kills, soak, torture


def main(arguments: list[str]) -> int:
    match arguments:
        case ["torture", *rest]:
            return torture.main(rest)
        case ["soak", *rest]:
            return soak.main(rest)
        case ["openclaw", *rest]:
            return openclaw_kills.main(rest)
        case ["commands", *rest]:
            return command_kills.main(rest)
        case ["fuzz", "pipe", *rest]:
            return fuzz_pipe.main(rest)
        case ["fuzz", *rest]:
            return fuzz.main(rest)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
