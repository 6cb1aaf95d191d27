"""Finds and explains what is wrong with the memory of one agent, and says how to fix it.

`finding` is the value that every check returns, `diagnosing` runs the checks, and each other module has the
checks of one topic. Nothing here changes anything of the user's, and no check uses the network.
"""
