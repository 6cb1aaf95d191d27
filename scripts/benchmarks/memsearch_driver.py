"""Runs in memsearch's own Python: a line of JSON in, a line of JSON out. Ends with its input.

Its first argument is JSON: keyword arguments of `MemSearch`.
"""

import asyncio
import json
import sys

from memsearch import MemSearch


def main() -> None:
    memory = MemSearch(**json.loads(sys.argv[1]))
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            asked = json.loads(line)
            if asked["method"] == "index":
                answer = runner.run(memory.index())
            else:
                found = runner.run(memory.search(asked["query"], top_k=asked["limit"]))
                answer = [one["content"] for one in found]
            print(json.dumps({"result": answer}), flush=True)


if __name__ == "__main__":
    main()
