"""One search over the builtin index: its lanes, their candidates, what may answer."""
