"""Noticing changes of the memory files without being asked: an accelerator.

The truth is the stat sweep that every sync begins with. Watching only says when one is worth while, so
it may miss events, be switched off, or run out of watches: then the sweep is repeated at intervals.

`places` says what to watch, `directories` finds the directories, `inotify` watches them, `debounce`
waits until a burst of changes is over, `watcher` is the task that ties them together.
"""
