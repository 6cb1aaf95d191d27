"""The memory flush: a silent turn before compaction, in which the agent writes down what must last."""
