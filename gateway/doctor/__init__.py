"""Finds and explains what is wrong with the memory of one agent, and says how to fix it.

`finding` is the value that every check gives, `diagnosing` runs the checks, the other modules hold one
theme each. Nothing here changes anything of the user's, and no check uses the network.
"""
