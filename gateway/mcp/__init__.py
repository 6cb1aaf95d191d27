"""The Model Context Protocol on the same pipe, for clients that know tools and not our methods.

`eras` tells which revision a request speaks, `arguments` and `schemas` describe the tools to a
model, `calls` runs one, `replies` dresses results as each era wants them, `methods` is what the pipe
registers. The work itself is that of `gateway.agent.memory`, the same as for the direct methods.
"""
