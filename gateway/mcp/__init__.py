"""The Model Context Protocol on the same pipe, for clients that know tools and not our methods.

`eras` tells which revision a request speaks and dresses results as each wants them, `tools` describes the
tools to a model and runs them, `answers` writes what they found as text, `resources` has notes for people to
choose, `methods` is what the pipe registers. The work itself is that of `gateway.agent`, the same as for the
direct methods.
"""
