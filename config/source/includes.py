"""`$include` in a configuration file: parts of it that are kept in other files.

`{"$include": "a.json5"}` stands for the content of that file, a list for several merged in order;
members beside it are merged over what was included. Objects merge member by member, lists are
joined, of other values the later wins. Every value keeps its own file and line.
"""

from __future__ import annotations

import os
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

from config.errors import ConfigInvalidError
from config.source.json5 import MAX_DEPTH, read_json5
from config.source.located import Located, quote, type_words
from config.source.syntax import error_at

INCLUDE = "$include"
MAX_CHAIN = 10
"""Files that include one another, at most."""


def resolve_includes(root: Located) -> Located:
    """The tree with every include filled in. Raises `ConfigInvalidError`."""
    return _resolve(root, (root.source.path,), 0) if INCLUDE in root.source.text else root


def _resolve(node: Located, chain: tuple[Path, ...], depth: int) -> Located:
    """`chain` holds the files from the first one to the one that `node` is in.

    `depth` counts through all of them: each file for itself may be as deep as the reader allows.
    """
    if depth > MAX_DEPTH:
        raise _refused(node, "the files together are nested too deep")
    if isinstance(node.value, list):
        return _replaced(node, [_resolve(item, chain, depth + 1) for item in node.value])
    if not isinstance(node.value, dict):
        return node
    own = {n: _resolve(m, chain, depth + 1) for n, m in node.value.items() if n != INCLUDE}
    if INCLUDE not in node.value:
        return _replaced(node, own)
    names = node.value[INCLUDE]
    parts = [_load(name, chain, depth) for name in _names(names)]
    if own and any(not isinstance(part.value, dict) for part in parts):
        raise _refused(names, "what is included beside other members must be objects")
    parts += [_replaced(node, own)] if own or not parts else []
    return _replaced(node, reduce(_merged, parts).value)


def _names(node: Located) -> list[Located]:
    names = node.value if isinstance(node.value, list) else [node]
    for name in names:
        if not isinstance(name.value, str) or "\0" in name.value:
            found = type_words(name.value)
            raise _refused(name, f"found {found}, allowed is a path or a list of paths")
    return names


def _load(name: Located, chain: tuple[Path, ...], depth: int) -> Located:
    path = Path(os.path.realpath(chain[-1].parent / name.value))
    if path in (Path(os.path.realpath(link)) for link in chain):
        raise _refused(name, f"{quote(name.value)} includes itself")
    if len(chain) > MAX_CHAIN:
        raise _refused(name, f"files are included more than {MAX_CHAIN} deep")
    try:
        included = read_json5(path)
    except FileNotFoundError:
        raise _refused(name, f"there is no file {quote(str(path))}") from None
    return _resolve(included, (*chain, path), depth)


def _refused(node: Located, message: str) -> ConfigInvalidError:
    return error_at(node.source, node.offset, f"{INCLUDE}: {message}", "Correct it there.")


def _replaced(node: Located, value: Any) -> Located:
    return msgspec.structs.replace(node, value=value)


def _merged(under: Located, over: Located) -> Located:
    if isinstance(under.value, dict) and isinstance(over.value, dict):
        members = dict(under.value)
        for name, member in over.value.items():
            members[name] = _merged(members[name], member) if name in members else member
        return _replaced(over, members)
    if isinstance(under.value, list) and isinstance(over.value, list):
        return _replaced(over, under.value + over.value)
    return over
